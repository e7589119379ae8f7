import { Options } from './conversion';
import { Mode } from './training';

/** Where a notebook keeps what it says about its own conversion. */
export const METADATA = 'jupyter_hvd';

/** The options of a conversion that are chosen beside it. */
export type OptionName = 'batch' | 'warmup_epochs' | 'guard';

/**
 * What a notebook's metadata say about its conversion.
 *
 * They are not checked: the server refuses what it does not know, and says why.
 */
export function optionsOf(metadata: unknown): Options {
  const options = (metadata as { options?: unknown } | null | undefined)?.options;
  return typeof options === 'object' && options !== null ? { ...options } : {};
}

/** The metadata with other options; undefined where nothing is left to keep. */
export function withOptions(
  metadata: unknown,
  options: Options
): Record<string, unknown> | undefined {
  const kept: Record<string, unknown> = { ...(metadata ?? {}), options };
  if (Object.keys(options).length === 0) {
    delete kept.options;
  }
  return Object.keys(kept).length > 0 ? kept : undefined;
}

/** Options of larger batches. */
const PER_RANK = ['warmup_epochs'] as const;

/** Options with a mode chosen, without those that do not go with it. */
export function inMode(options: Options, mode: Mode): Options {
  const others = new Set<string>(mode === 'global' ? PER_RANK : []);
  const kept = Object.entries(options).filter(([name]) => !others.has(name));
  return { ...Object.fromEntries(kept), batch: mode };
}

/** Options with one chosen, or, for undefined, left to the settings again. */
export function choosing<K extends OptionName>(
  options: Options,
  name: K,
  value: Options[K] | undefined
): Options {
  const chosen = Object.entries({ ...options, [name]: value });
  return Object.fromEntries(chosen.filter(([, given]) => given !== undefined));
}
