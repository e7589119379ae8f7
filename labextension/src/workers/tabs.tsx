import React, { useRef } from 'react';

/** A tab, and what stands on it. */
export interface ITab {
  key: string;
  label: string;
  /** What is wrong there, for those who see the tab and for those who hear of it. */
  warning?: string;
}

/** Tabs as the ARIA practices have them: one of them is a stop for the Tab key, arrow keys go from one to the next. */
export function Tabs(props: {
  id: string;
  label: string;
  tabs: ITab[];
  chosen: string;
  onChoose: (key: string) => void;
  children: React.ReactNode;
}): JSX.Element {
  const { id, label, tabs, chosen, onChoose, children } = props;
  const list = useRef<HTMLDivElement>(null);
  const at = tabs.findIndex(tab => tab.key === chosen);
  const onKeyDown = (event: React.KeyboardEvent): void => {
    const last = tabs.length - 1;
    const next: Record<string, number> = {
      ArrowRight: at === last ? 0 : at + 1,
      ArrowLeft: at <= 0 ? last : at - 1,
      Home: 0,
      End: last
    };
    const to = next[event.key];
    if (to !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      onChoose(tabs[to].key);
      list.current?.querySelectorAll<HTMLElement>('[role="tab"]')[to].focus();
    }
  };
  return (
    <>
      <div
        className="jp-hvd-tablist"
        role="tablist"
        aria-label={label}
        ref={list}
        onKeyDown={onKeyDown}
      >
        {tabs.map(tab => (
          <button
            key={tab.key}
            type="button"
            role="tab"
            id={`${id}-${tab.key}`}
            aria-selected={tab.key === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={tab.key === chosen ? 0 : -1}
            title={tab.warning}
            onClick={() => onChoose(tab.key)}
          >
            {tab.label}
            {tab.warning && (
              <>
                <span aria-hidden="true"> ⚠</span>
                <span className="jp-hvd-unseen">, {tab.warning}</span>
              </>
            )}
          </button>
        ))}
      </div>
      <div
        className="jp-hvd-tabpanel"
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${chosen}`}
        tabIndex={0}
      >
        {children}
      </div>
    </>
  );
}
