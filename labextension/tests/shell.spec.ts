import { runCommand } from '../src/shell';

describe('runCommand', () => {
  it.each([
    ['train.ipynb', 'train.ipynb'],
    ['my net.ipynb', "'my net.ipynb'"],
    ["it's.ipynb", "'it'\\''s.ipynb'"],
    ['$(touch x).ipynb', "'$(touch x).ipynb'"],
    ['-n 4.ipynb', "'./-n 4.ipynb'"],
    ['-$(touch x).ipynb', "'./-$(touch x).ipynb'"],
    ['-n.ipynb', './-n.ipynb']
  ])('quotes %s', (name, word) => {
    expect(runCommand(name, 2)).toBe(`jupyter hvd run ${word} -n 2`);
  });

  it.each(['a\nid\n.ipynb', '\u0003id\r.ipynb', '\u001b[A.ipynb', '\u009bA.ipynb'])(
    'types no keys',
    name => {
      expect(runCommand(name, 2)).toBeNull();
    }
  );
});
