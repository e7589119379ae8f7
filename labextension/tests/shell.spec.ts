import { runCommand, runCommandIn } from '../src/shell';

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

describe('runCommandIn', () => {
  it('names the folder and the program', () => {
    expect(runCommandIn('a net.ipynb', 2, '')).toBe(
      `cd "$JUPYTER_SERVER_ROOT" && jupyter hvd run 'a net.ipynb' -n 2`
    );
    expect(runCommandIn("my nets/it's/a.ipynb", 3, '/my env/bin/jupyter-hvd')).toBe(
      `cd "$JUPYTER_SERVER_ROOT"'/my nets/it'\\''s' && '/my env/bin/jupyter-hvd' run a.ipynb -n 3`
    );
  });

  it('types no keys of a folder', () => {
    expect(runCommandIn('a\nid\n/b.ipynb', 2, '')).toBeNull();
  });
});
