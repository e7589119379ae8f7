/** What the keyboard can come to, JupyterLab's toolbar buttons among it. */
export const REACHABLE = 'button, jp-button, input, select, summary, [tabindex="0"]';

/**
 * Keep the keyboard's place in a part of the page: where what has the focus goes away or is disabled, the nearest thing that
 * stays gets it, one of the same kind first. On the page's body no shortcut would work.
 *
 * Returns what ends this.
 */
export function keepFocus(part: HTMLElement): () => void {
  let path: HTMLElement[] = [];
  const remember = (event: FocusEvent): void => {
    path = ancestors(event.target as HTMLElement, part);
  };
  const forget = (event: FocusEvent): void => {
    if (event.relatedTarget && !part.contains(event.relatedTarget as Node)) {
      path = [];
    }
  };
  const observer = new MutationObserver(() => {
    const [lost, ...above] = path;
    if (lost && document.activeElement === document.body && !isReachable(lost)) {
      const found = above
        .filter(each => each.isConnected)
        .map(each => nearest(each, lost.tagName))
        .find(each => each !== undefined);
      // Where what had the focus was scrolled away, the page is not scrolled back.
      (found ?? part).focus({ preventScroll: true });
    }
  });
  part.addEventListener('focusin', remember);
  part.addEventListener('focusout', forget);
  observer.observe(part, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ['disabled', 'aria-disabled', 'class', 'hidden']
  });
  return () => {
    observer.disconnect();
    part.removeEventListener('focusin', remember);
    part.removeEventListener('focusout', forget);
  };
}

/** An element and those that it lies in, up to a part of the page. */
function ancestors(element: HTMLElement, part: HTMLElement): HTMLElement[] {
  const found: HTMLElement[] = [];
  for (
    let each: HTMLElement | null = element;
    each !== null && part.contains(each);
    each = each.parentElement
  ) {
    found.push(each);
  }
  return found;
}

function nearest(part: HTMLElement, tagName: string): HTMLElement | undefined {
  const reachable = [...part.querySelectorAll<HTMLElement>(REACHABLE)].filter(
    isReachable
  );
  return reachable.find(each => each.tagName === tagName) ?? reachable[0];
}

/** Whether the keyboard can come to an element now. */
export function isReachable(element: HTMLElement): boolean {
  return (
    element.isConnected &&
    element.checkVisibility() &&
    !element.matches(':disabled, [disabled], [aria-disabled="true"]')
  );
}
