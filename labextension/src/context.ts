import { Extension } from '@codemirror/state';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import {
  createContext,
  startTransition,
  useCallback,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore
} from 'react';

import { ISignal } from '@lumino/signaling';
import { HvdApi } from './request';
import { DiffSearch } from './search';
import { ServerText } from './servertext';
import { ConversionSession } from './session';
import { Settings } from './settings';

/** What every part of the view may need. */
export interface IViewContext {
  session: ConversionSession;
  commands: CommandRegistry;
  rendermime: IRenderMimeRegistry;
  language: Extension;
  settings: Settings;
  search: DiffSearch;
  trans: TranslationBundle;
  /** Translates a sentence of the server. */
  said: ServerText;
  api: HvdApi;
  /** The buttons that reject or restore a change, by its key, as far as they are near the screen. */
  buttons: Map<string, HTMLButtonElement>;
}

export const ViewContext = createContext<IViewContext | null>(null);

export function useView(): IViewContext {
  return useContext(ViewContext)!;
}

/** Render again whenever a signal is emitted, also between rendering and showing. */
export function useSignal<T, A>(signal: ISignal<T, A> | undefined): void {
  const subscribe = useCallback(
    (render: () => void) => {
      signal?.connect(render);
      return () => void signal?.disconnect(render);
    },
    [signal]
  );
  useSyncExternalStore(subscribe, () => (signal ? emissions(signal) : 0));
}

/**
 * Render again where a signal is emitted and a text that depends on it has changed: of hundreds of cells only those do that
 * differ, and after what the user has clicked on.
 */
export function useText<T, A>(signal: ISignal<T, A>, read: () => string): string {
  const latest = useRef(read);
  latest.current = read;
  const [, setText] = useState(read);
  useEffect(() => {
    const renew = (): void => startTransition(() => setText(latest.current()));
    signal.connect(renew);
    renew(); // the signal may have been emitted since this was rendered
    return () => void signal.disconnect(renew);
  }, [signal]);
  return read();
}

const counted = new WeakMap<object, { count: number }>();

/** How often a signal has been emitted since somebody first asked. */
function emissions<T, A>(signal: ISignal<T, A>): number {
  let found = counted.get(signal);
  if (!found) {
    const made = { count: 0 };
    signal.connect(() => void made.count++);
    counted.set(signal, (found = made));
  }
  return found.count;
}
