import type { TranslationBundle } from '@jupyterlab/translation';

import TEXTS from './servertexts.json';

/** Translates a sentence of the server or the kernel; what has no translation stays as it is. */
export type ServerText = (text: string) => string;

/** A template with values, `%n` the n-th of them, and how a sentence is told that was made from it. */
interface ITemplate {
  text: string;
  pattern: RegExp;
}

/** So many sentences are remembered. */
const KNOWN = 1000;
const PLACE = /%\d+/;
/** What every template has; figures have none. */
const WORD = /\p{L}{2}/u;
const WITHOUT_VALUES = new Set(TEXTS.filter(text => !PLACE.test(text)));

let compiled: ITemplate[] | undefined;

/** Templates with values, those with the most fixed words first: they say the most about a sentence. */
function templates(): ITemplate[] {
  compiled ??= TEXTS.filter(text => PLACE.test(text))
    .sort((a, b) => fixed(b).length - fixed(a).length)
    .map(text => ({ text, pattern: pattern(text) }));
  return compiled;
}

function fixed(text: string): string {
  return text.split(PLACE).join('');
}

function pattern(text: string): RegExp {
  const parts = text
    .split(PLACE)
    .map(part => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('([^]*?)')}$`);
}

/** How a sentence is made of a template and values, which may be sentences themselves; null where there is no such template. */
export function parse(text: string): { text: string; values: string[] } | null {
  if (!WORD.test(text)) {
    return null;
  }
  if (WITHOUT_VALUES.has(text)) {
    return { text, values: [] };
  }
  for (const template of templates()) {
    const found = template.pattern.exec(text);
    if (found) {
      return { text: template.text, values: found.slice(1) };
    }
  }
  return null;
}

/** The server speaks English, and knows no user's language: its sentences are translated where they are shown. */
export function serverText(trans: TranslationBundle): ServerText {
  const translate = trans.__.bind(trans);
  const known = new Map<string, string>();
  const translated = (text: string): string => {
    let said = known.get(text);
    if (said === undefined) {
      const found = parse(text);
      said = found ? translate(found.text, ...found.values.map(translated)) : text;
      // A slider that moves makes new sentences without an end.
      if (known.size >= KNOWN) {
        known.clear();
      }
      known.set(text, said);
    }
    return said;
  };
  return translated;
}
