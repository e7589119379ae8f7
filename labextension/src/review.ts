import { IStateDB } from '@jupyterlab/statedb';

import { IVerdict } from './verification';

/** What is kept of the review of a notebook's conversion. */
export interface IReview {
  /** The keys of the changes that are left out. */
  left: string[];
  verdict: IVerdict | null;
  /** Digests of the cells that were looked at; none in a review of an earlier version. */
  viewed?: string[];
}

/** Keeps reviews by the paths of their notebooks, in the workspace: they outlive a reload of the page. */
export class Reviews {
  constructor(private _state: IStateDB | null) {}

  async load(path: string): Promise<IReview | null> {
    const found = await this._state?.fetch(keyOf(path));
    return (found as unknown as IReview | undefined) ?? null;
  }

  /** Keep a review; one with nothing in it is forgotten. */
  async save(path: string, review: IReview): Promise<void> {
    const { left, verdict, viewed = [] } = review;
    if (left.length === 0 && verdict === null && viewed.length === 0) {
      await this._state?.remove(keyOf(path));
    } else {
      // A copy as JSON has it, without what is undefined.
      await this._state?.save(keyOf(path), JSON.parse(JSON.stringify(review)));
    }
  }
}

/** Not in the tabs' own namespace: what JupyterLab finds there it takes for a tab. */
function keyOf(path: string): string {
  return `jupyter-hvd-review:${path}`;
}
