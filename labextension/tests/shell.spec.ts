import { runCommand } from '../src/shell';

const installation = { root: '/srv/ada', program: '/my env/bin/jupyter-hvd' };

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
    expect(runCommand(name, 2, installation)).toBe(
      `cd /srv/ada && '/my env/bin/jupyter-hvd' run ${word} -n 2`
    );
  });

  it('names the folder', () => {
    expect(runCommand("my nets/it's/a.ipynb", 3, { root: '/', program: '' })).toBe(
      `cd '/my nets/it'\\''s' && jupyter hvd run a.ipynb -n 3`
    );
  });

  it.each([
    'a\nid\n.ipynb',
    '\u0003id\r.ipynb',
    '\u001b[A.ipynb',
    '\u009bA.ipynb',
    'a\nid\n/b.ipynb'
  ])('types no keys', path => {
    expect(runCommand(path, 2, installation)).toBeNull();
  });
});
