import { isReachable, REACHABLE } from './focus';

/** The parts of a tab that F6 leads to, in the order of the page. */
const REGIONS = '.jp-Toolbar, .jp-hvd-summary, .jp-hvd-cells, .jp-hvd-panel';

/** Move the focus to the next part of a tab, or to the one before; after the last comes the first. */
export function moveToRegion(tab: HTMLElement, step: 1 | -1): void {
  const stops = [...tab.querySelectorAll<HTMLElement>(REGIONS)].flatMap(
    region =>
      [...region.querySelectorAll<HTMLElement>(REACHABLE)].find(
        each => each.tabIndex >= 0 && isReachable(each)
      ) ?? []
  );
  const focused = document.activeElement?.closest(REGIONS);
  const current = stops.findIndex(stop => stop.closest(REGIONS) === focused);
  const next = current < 0 && step < 0 ? -1 : current + step;
  stops.at(next % stops.length)?.focus();
}
