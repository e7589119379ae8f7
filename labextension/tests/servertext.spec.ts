import { readdirSync, readFileSync } from 'fs';

import type { TranslationBundle } from '@jupyterlab/translation';

import { parse, serverText } from '../src/servertext';
import TEXTS from '../src/servertexts.json';

type Translate = (text: string) => string;

/** A language: values take the places of `%1`, `%2` … in the translation, as JupyterLab has it. */
const language = (translate: Translate): TranslationBundle =>
  ({
    __: (text: string, ...values: string[]) =>
      translate(text).replace(/%(\d+)/g, (_, n) => values[n - 1])
  }) as unknown as TranslationBundle;

/** A language in which every template is written backwards, word by word. */
const backwards = language(text => text.split(' ').reverse().join(' '));
const english = language(text => text);

const GOLDEN = 'tests/programs/';
/** A change or a finding in a golden file: of a finding the message, a semicolon, and what to do. */
const SAID = /^line \d+: (?:\w+ )?HVD\d+: (.*)$/gm;

function isKnown(text: string): boolean {
  const ends = [...text.matchAll(/; /g)].map(found => found.index);
  return (
    !!parse(text) || ends.some(i => parse(text.slice(0, i)) && parse(text.slice(i + 2)))
  );
}

describe('serverText', () => {
  it('translates the template of a sentence, with its values', () => {
    const said = serverText(backwards);
    expect(said('no template has these words')).toBe('no template has these words');
    expect(said('no training step was observed')).toBe('observed was step training no');
    expect(said('this program already distributes, with tf.x')).toBe(
      'tf.x with distributes, already program this'
    );
  });

  it('translates a sentence within another', () => {
    const said = serverText(backwards);
    expect(said('not judged: the training was ended before its end')).toBe(
      'end its before ended was training the judged: not'
    );
    expect(said('the ranks fail: no training step was observed')).toBe(
      'observed was step training no fail: ranks the'
    );
  });

  it('leaves values as they are', () => {
    expect(serverText(backwards)('`%2 $1` is missing')).toBe('missing is `%2 $1`');
  });

  it('changes nothing without a language pack', () => {
    const said = serverText(english);
    const texts = TEXTS.map(text => text.replace(/%\d+/g, 'x y'));
    expect(texts.map(said)).toEqual(texts);
  });

  it('knows every template by itself', () => {
    const unknown = TEXTS.filter(text => !parse(text.replace(/%\d+/g, '7')));
    expect(unknown).toEqual([]);
  });

  it('knows all that is said of the programs of the tests', () => {
    const said = readdirSync(GOLDEN)
      .filter(name => name.endsWith('.expected'))
      .flatMap(name => [...readFileSync(GOLDEN + name, 'utf8').matchAll(SAID)])
      .map(found => found[1]);
    expect(said.length).toBeGreaterThan(900);
    expect(said.filter(text => !isKnown(text))).toEqual([]);
  });
});
