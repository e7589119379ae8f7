import { TranslationBundle } from '@jupyterlab/translation';
import { createContext, useContext } from 'react';

import { PanelModel } from './model';
import { ServerText } from '../servertext';
import { ISource } from './report';

/** What every part of a panel may need. */
export interface IPanelContext {
  model: PanelModel;
  trans: TranslationBundle;
  /** Translates a sentence of the kernel. */
  said: ServerText;
  /** Show a line in its cell. */
  reveal: (place: ISource) => void;
}

export const PanelContext = createContext<IPanelContext | null>(null);

export function usePanel(): IPanelContext {
  return useContext(PanelContext)!;
}
