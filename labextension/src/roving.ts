import { RefObject, useEffect } from 'react';

import { isReachable } from './focus';

/** What arrow keys come to: buttons, boxes, links, editors, and lines that are folded away. */
const CONTROLS = 'button, input, summary, a[href], [tabindex], .cm-collapsedLines';

interface IRovingOptions {
  /** The selector of what Tab comes to at first; else it is the first control. */
  first?: string;
  /** The keys that lead to the control before and to the one after. */
  keys?: Readonly<Record<string, -1 | 1 | undefined>>;
}

/** Left and right alone, where up and down do something else. */
export const ACROSS = { ArrowLeft: -1, ArrowRight: 1 } as const;
const ARROWS = { ...ACROSS, ArrowUp: -1, ArrowDown: 1 } as const;

/**
 * Make a part of the page one stop of Tab, as WAI-ARIA's roving tabindex: Tab comes to the control that had the focus last, and
 * arrow keys lead from one to another, past a text when it is scrolled to its end.
 */
export function useRovingFocus(
  ref: RefObject<HTMLElement>,
  options: IRovingOptions = {}
): void {
  useEffect(() => rovingFocus(ref.current!, options), []);
}

function rovingFocus(
  part: HTMLElement,
  { first = CONTROLS, keys = ARROWS }: IRovingOptions
): () => void {
  let visited: HTMLElement | null = null;
  const controls = (): HTMLElement[] => [...part.querySelectorAll<HTMLElement>(CONTROLS)];
  const isStop = (control: HTMLElement): boolean =>
    part.contains(control) && isReachable(control);
  const renew = (): void => {
    const all = controls();
    const stop =
      visited && isStop(visited)
        ? visited
        : ([...part.querySelectorAll<HTMLElement>(first)].find(isStop) ??
          all.find(isStop));
    for (const control of all) {
      setIndex(control, control === stop ? 0 : -1);
      if (control.matches('.cm-collapsedLines')) {
        control.role = 'button';
      }
    }
  };
  const onFocus = (event: FocusEvent): void => {
    const control = (event.target as HTMLElement).closest<HTMLElement>(CONTROLS);
    // An editor's own attributes are its own.
    if (control && control !== part && !control.matches('.cm-content')) {
      visited = control;
      renew();
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) {
      return;
    }
    const step = keys[event.key];
    if (step && !scrolls(target, step)) {
      event.preventDefault();
      const all = controls().filter(each => each === target || isReachable(each));
      all.at((all.indexOf(target) + step) % all.length)?.focus();
    } else if (target.matches('.cm-collapsedLines') && /^(Enter| )$/.test(event.key)) {
      event.preventDefault();
      target.click();
    }
  };
  const observer = new MutationObserver(renew);
  part.addEventListener('focusin', onFocus);
  part.addEventListener('keydown', onKey);
  observer.observe(part, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ['disabled', 'hidden', 'open']
  });
  renew();
  return () => {
    observer.disconnect();
    part.removeEventListener('focusin', onFocus);
    part.removeEventListener('keydown', onKey);
  };
}

/** Whether a text is wider than its place, with more of it on that side. */
function scrolls(control: HTMLElement, step: -1 | 1): boolean {
  const scroller = control.closest('.cm-scroller');
  if (!control.matches('.cm-content') || !scroller) {
    return false;
  }
  const { scrollLeft, scrollWidth, clientWidth } = scroller;
  return step < 0 ? scrollLeft > 0 : scrollLeft + clientWidth < scrollWidth - 1;
}

function setIndex(control: HTMLElement, index: number): void {
  if (control.getAttribute('tabindex') !== String(index)) {
    control.tabIndex = index;
  }
}
