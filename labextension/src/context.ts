import { Extension } from '@codemirror/state';
import { IThemeManager } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { createContext, useContext, useEffect, useReducer } from 'react';

import { ISignal } from '@lumino/signaling';
import { ConversionSession } from './session';

/** What every part of the view may need. */
export interface IViewContext {
  session: ConversionSession;
  commands: CommandRegistry;
  rendermime: IRenderMimeRegistry;
  language: Extension;
  themes: IThemeManager | null;
  trans: TranslationBundle;
}

export const ViewContext = createContext<IViewContext | null>(null);

export function useView(): IViewContext {
  return useContext(ViewContext)!;
}

/** Render again whenever a signal is emitted. */
export function useSignal<T, A>(signal: ISignal<T, A> | undefined): void {
  const [, render] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    signal?.connect(render);
    return () => {
      signal?.disconnect(render);
    };
  }, [signal]);
}
