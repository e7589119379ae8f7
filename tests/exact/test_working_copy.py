"""What a rank on a working copy writes never reaches the user's folder, and what it reads is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Small limits, so that small files stand for large ones.
RANK = """
import os, shutil, sys
from pathlib import Path
from jupyter_hvd.runtime.sharing import working_copy
working_copy.LARGEST, working_copy.ENTRIES = 100, 3
source, target = map(Path, sys.argv[1:3])
working_copy.copy_folder(source, target, source / "job")
os.chdir(target)
assert all(Path(name).is_symlink() for name in ("large.bin", "full", ".venv-3.12"))
working_copy.Unlinker(target)
exec(sys.argv[3])
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    (folder / "full").mkdir(parents=True)
    (folder / "job").mkdir()
    (folder / ".venv-3.12").mkdir()
    (folder / ".venv-3.12" / "pyvenv.cfg").write_text("home = /usr/bin")
    (folder / "small.txt").write_text("small")
    (folder / "large.bin").write_bytes(b"l" * 200)
    (folder / "model.h5").write_bytes(b"m" * 200)
    for number in range(5):
        (folder / "full" / f"{number}.txt").write_text(str(number))
    return folder


def run(source: Path, tmp_path: Path, program: str) -> Path:
    target = tmp_path / "rank"
    subprocess.run([sys.executable, "-c", RANK, source, target, program], check=True)
    return target


@pytest.mark.parametrize(
    "program",
    [
        "open('large.bin', 'w').write('new')",
        "open('large.bin', 'a').write('new'); assert len(open('large.bin').read()) == 203",
        "open('large.bin', 'r+b').write(b'new'); assert len(open('large.bin').read()) == 200",
        "os.close(os.open('large.bin', os.O_WRONLY | os.O_TRUNC))",
        "os.truncate('large.bin', 5)",
        "os.chmod('large.bin', 0o600)",
        "Path('model.h5').write_bytes(b'')",
        "Path('small.txt').unlink()",
        "Path('full/new.txt').write_text('new'); assert len(os.listdir('full')) == 6",
        "Path('full/1.txt').write_text('new'); assert Path('full/2.txt').read_text() == '2'",
        "os.remove('full/1.txt'); assert len(os.listdir('full')) == 4",
        "os.rename('full/1.txt', 'full/7.txt'); assert Path('full/7.txt').read_text() == '1'",
        "os.replace('small.txt', 'full/1.txt'); assert Path('full/1.txt').read_text() == 'small'",
        "os.mkdir('full/folder'); Path('full/folder/x').write_text('x')",
        "shutil.rmtree('full'); assert not os.path.lexists('full')",
        "shutil.move('full', 'moved')",
        "shutil.copy('small.txt', 'full/0.txt')",
        "import numpy as np; np.memmap('large.bin', mode='r+')[:] = 0",
    ],
)
def test_the_folder_of_the_user_stays_as_it_is(source: Path, tmp_path: Path, program: str) -> None:
    before = contents(source)
    mode = (source / "large.bin").stat().st_mode
    run(source, tmp_path, program)
    assert contents(source) == before
    assert (source / "large.bin").stat().st_mode == mode


def test_what_is_only_read_stays_linked(source: Path, tmp_path: Path) -> None:
    target = run(source, tmp_path, "open('large.bin').read(); open('full/1.txt').read()")
    assert (target / "large.bin").is_symlink()
    assert (target / "full").is_symlink()
    assert not (target / "job").exists()


def test_a_copy_is_brought_up_to_date(source: Path, tmp_path: Path) -> None:
    """It has what the folder has now, in the same place; what neither side has written is not copied again."""
    (source / "sub").mkdir()
    (source / "sub" / "kept.txt").write_text("kept")
    program = """
os.chdir("sub")
kept = Path("kept.txt").stat().st_ino
Path("../small.txt").write_text("own")
Path("own.txt").write_text("own")
(source / "new.txt").write_text("new")
(source / "model.h5").unlink()
working_copy.renew_copy(source, target, source / "job")
assert Path.cwd() == target / "sub", Path.cwd()
assert Path("kept.txt").stat().st_ino == kept
"""
    target = run(source, tmp_path, program)
    shown = {name: data for name, data in contents(target).items() if "/" not in name}
    assert shown == {"new.txt": b"new", "small.txt": b"small"}
    assert [path.name for path in (target / "sub").iterdir()] == ["kept.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank", "user"]
