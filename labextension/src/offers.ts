import { ModelSize } from './conversion';

/** A model whose size is known, and from where; the kernel knows best. */
export interface IModelOffer extends ModelSize {
  from: 'kernel' | 'source';
}

export function offersOf(
  kernel: readonly ModelSize[],
  source: readonly ModelSize[]
): IModelOffer[] {
  return [
    ...kernel.map(model => ({ ...model, from: 'kernel' as const })),
    ...source.map(model => ({ ...model, from: 'source' as const }))
  ];
}

export function keyOf(offer: IModelOffer): string {
  return `${offer.from} ${offer.name}`;
}

/** The largest model of the best source. */
export function largest(offers: readonly IModelOffer[]): IModelOffer | undefined {
  const best = offers.filter(offer => offer.from === offers[0].from);
  return best.sort((a, b) => b.parameters - a.parameters)[0];
}
