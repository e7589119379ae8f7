"""Files that ranks share: who downloads and writes them, and who waits before they are read."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import os

    import numpy as np
    import pandas as pd
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile('sgd', 'mse')
    model.fit(x, y)
    """
)


def converted(body: str) -> str:
    """What becomes of a few lines behind a program that trains."""
    conversion = convert_source(HEAD + body)
    assert conversion.status == "converted", conversion.diagnostics
    assert not told(body)
    return conversion.code.partition("model.fit(")[2].partition("\n")[2]


def told(body: str) -> list[tuple[str, str]]:
    found = convert_source(HEAD + body).diagnostics
    return [(d.code, d.severity) for d in found if d.code.startswith("HVD6")]


# Downloads

GET = "tf.keras.utils.get_file('a', 'http://a/a')"
FIRST = f"jhvd.local_rank_zero_first(lambda: {GET})"
LOAD = "tf.keras.datasets.mnist.load_data()"


@pytest.mark.parametrize(
    "body",
    [
        f"{GET}\n",
        f"path = str({GET})\n",
        f"def data():\n    return {GET}\n\n\ndata()\n",
        f"def data():\n    return {GET}\n\n\nif __name__ == '__main__':\n    data()\n    data()\n",
        f"for k in range(3):\n    {GET}\n",
        f"paths = [{GET} for k in ('a', 'b')]\n",
        f"paths = {{k: {GET} for k, v in {{'a': 1}}.items()}}\n",
        f"class Data:\n    def __init__(self):\n        self.path = {GET}\n\n\nData()\n",
        f"with place:\n    np.load({GET})\n",
        f"try:\n    {GET}\nfinally:\n    y = 1\n",
    ],
)
def test_rank_zero_downloads_first(body: str) -> None:
    assert converted(body) == body.replace(GET, FIRST)


def test_data_sets_in_functions() -> None:
    body = f"def data():\n    return {LOAD}\n\n\n(a, b), _ = data()\n"
    first = f"jhvd.local_rank_zero_first(lambda: {LOAD})"
    assert converted(body) == body.replace(LOAD, first)


@pytest.mark.parametrize(
    "load",
    [
        "tf.keras.applications.VGG16()",
        "keras.applications.resnet50.ResNet50(weights='imagenet')",
        "applications.MobileNetV2(False, weights)",
        "tf.keras.applications.vgg16.decode_predictions(z)",
        "hub.load('https://a/a')",
        "hub.KerasLayer('https://a/a')",
        "fetch_california_housing()",
        "kagglehub.dataset_download('a')",
        "keras_hub.models.Backbone.from_preset('a')",
        "AutoTokenizer.from_pretrained('a')",
        "datasets.load_dataset('a')",
        "nltk.download('punkt')",
    ],
)
def test_what_other_libraries_download(load: str) -> None:
    imports = (
        "import datasets, kagglehub, keras, keras_hub, nltk, tensorflow_hub as hub\n"
        "from keras import applications\nfrom sklearn.datasets import fetch_california_housing\n"
        "from transformers import AutoTokenizer\n"
    )
    first = f"z = [jhvd.local_rank_zero_first(lambda: {load})]\n"
    assert converted(f"{imports}z = [{load}]\n") == imports + first


@pytest.mark.parametrize(
    "load",
    [
        "tf.keras.applications.VGG16(weights=None)",
        "tf.keras.applications.vgg16.preprocess_input(z)",
        "model.download('a')",
        "sklearn.datasets.load_iris()",
    ],
)
def test_what_downloads_nothing(load: str) -> None:
    body = f"import sklearn.datasets\nz = {load}\n"
    assert converted(body) == body


def test_what_is_asked_before_a_download_is_answered_for_all() -> None:
    asked = "jhvd.on_rank_zero(lambda: os.path.exists('a'))"
    for form in (
        "if {}:\n    {}\n",
        "path = 'a' if {} else {}\n",
        "def get():\n    if {}:\n        return 'a'\n    return {}\n\n\nget()\n",
    ):
        assert converted(form.format("os.path.exists('a')", GET)) == form.format(asked, FIRST)


def test_one_answer_for_a_download_and_a_folder() -> None:
    code = converted(f"if not os.path.exists('a'):\n    os.mkdir('b')\n    {GET}\n")
    assert code == (
        "if jhvd.on_rank_zero(lambda: not os.path.exists('a')):\n"
        f"    jhvd.on_rank_zero(lambda: os.mkdir('b'))\n    {FIRST}\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        f"if model.evaluate(x, y) > 1:\n    {GET}\n",
        f"try:\n    y = 1\nexcept OSError:\n    {GET}\n",
        f"get = lambda: {GET}\n",
        f"def data():\n    {GET}\n",
        f"def data():\n    {GET}\n\n\nif model.evaluate(x, y) > 1:\n    data()\n",
        f"def data():\n    yield {GET}\n\n\nall(data())\n",
        f"class Data:\n    name = 'a'\n    path = {GET}\n",
        f"def data(z):\n    if np.random.rand() > z:\n        return 1\n    {GET}\n\n\ndata(1)\n",
    ],
)
def test_where_ranks_may_not_come_together_it_is_told(body: str) -> None:
    assert told(body) == [("HVD605", "warning")]
    assert "zero_first" not in convert_source(HEAD + body).code


def test_what_rank_zero_does_alone_waits_for_nobody() -> None:
    for outer in ("os.rename({}, 'b')", "os.remove(os.readlink({}))"):
        act = outer.format(GET)
        assert converted(f"{act}\n") == f"jhvd.on_rank_zero(lambda: {act})\n"
    guarded = f"import horovod\nif hvd.rank() == 0:\n    {GET}\n"
    assert GET in convert_source(HEAD + guarded).code
    code = converted(f"print({GET})\n")
    assert code.startswith(f"hvd_printed = ({FIRST},)\n")


def test_changes_of_files_in_one_another() -> None:
    code = converted("import shutil\nos.remove(shutil.copy('a', 'b'))\n")
    assert "jhvd.on_rank_zero(lambda: os.remove(shutil.copy('a', 'b')))\n" in code


# Reading what was written

WAIT = "jhvd.wait_for_rank_zero()\n"


@pytest.mark.parametrize(
    "read",
    [
        "tf.data.experimental.make_csv_dataset('t.csv', 32)",
        "tf.data.TextLineDataset('t.csv').map(f)",
        "tf.data.TFRecordDataset(['t'])",
        "tf.data.Dataset.list_files('*')",
        "tf.keras.utils.image_dataset_from_directory('t')",
        "tf.keras.preprocessing.image_dataset_from_directory('t')",
        "tf.keras.preprocessing.image.ImageDataGenerator().flow_from_directory('t')",
        "tf.io.read_file('t')",
        "[tf.io.read_file(name) for name in names]",
        "pd.read_csv('t.csv')",
        "np.load(name)['a']",
        "os.listdir('.')",
        "os.path.exists('t')",
        "open('t').read()",
        "__import__('glob').glob('*')",
        "__import__('cv2').imread('t')",
        "__import__('pathlib').Path('t').read_text()",
    ],
)
def test_readers_wait_for_rank_zero(read: str) -> None:
    body = f"frame.to_csv('t.csv')\nread = {read}\nagain = {read}\n"
    assert converted(body) == (
        f"if hvd.rank() == 0:\n    frame.to_csv('t.csv')\n{WAIT}read = {read}\nagain = {read}\n"
    )


def test_what_is_printed_is_not_waited_for() -> None:
    assert "wait_for" not in converted("model.summary()\nz = np.load('a')\n")


def test_pictures_are_read() -> None:
    body = "from PIL import Image\nframe.to_csv('t')\npicture = Image.open('t')\n"
    assert f"{WAIT}picture = Image.open('t')\n" in converted(body)


def test_files_copied_in_a_loop_are_waited_for_behind_it() -> None:
    code = converted(
        "import shutil\nfor name in os.listdir('a'):\n    shutil.copyfile(name, 'b')\n"
        "data = tf.keras.utils.image_dataset_from_directory('b')\n"
    )
    assert code.count(WAIT) == 1
    assert f"shutil.copyfile(name, 'b')\n{WAIT}data" in code


def test_all_wait_in_front_of_a_loop_over_files() -> None:
    body = "frame.to_csv('t')\nfor name in os.listdir('.'):\n    z = np.load(name)\n"
    assert converted(body).endswith(f"{WAIT}for name in os.listdir('.'):\n    z = np.load(name)\n")


def test_each_branch_has_its_own_wait() -> None:
    code = converted(
        "np.save('a', x)\nif again:\n    y = np.load('a')\nz = np.load('a')\nw = np.load('a')\n"
    )
    assert f"if again:\n    {WAIT}    y = np.load('a')\n{WAIT}z = np.load('a')\nw" in code


def test_what_the_turn_before_has_written() -> None:
    code = converted("for k in range(3):\n    z = np.load('a')\n    np.save('a', x)\n")
    assert f"for k in range(3):\n    {WAIT}    z = np.load('a')\n" in code


def test_to_wait_once_is_enough_for_a_loop_that_reads() -> None:
    body = "np.save('a', x)\nfor k in range(3):\n    for n in range(2):\n        z = np.load('a')\n"
    code = converted(body)
    assert code.count(WAIT) == 1
    assert f"{WAIT}for k in range(3):\n    for n" in code


def test_what_is_written_where_nothing_was_found() -> None:
    """Rank 0 answers for all, lest a rank that comes later finds what rank 0 is still writing."""
    code = converted(
        "def cached():\n    if os.path.exists('a'):\n        return np.load('a')\n"
        "    np.save('a', x)\n    return np.load('a')\n\n\ncached()\n"
    )
    assert "    if jhvd.on_rank_zero(lambda: os.path.exists('a')):\n        return np.load" in code
    assert f"np.save('a', x)\n    {WAIT}    return np.load('a')\n" in code


def test_functions_that_write_and_read() -> None:
    head = "def save():\n    np.save('a', x)\n\n\ndef load(name):\n    return np.load(name)\n\n\n"
    assert f"save()\n{WAIT}z = load('a')\n" in converted(f"{head}save()\nz = load('a')\n")
    handed = f"{head}save()\nz = list(map(load, ['a']))\n"
    assert f"save()\n{WAIT}z = list" in converted(handed)
    inside = "def main():\n    np.save('a', x)\n    return np.load('a')\n\n\nmain()\n"
    assert f"    {WAIT}    return np.load('a')\n\n\nmain()\n" in converted(inside)
    assert "wait_for" not in converted(f"{head}z = load('a')\nsave()\n")


def test_a_file_that_is_opened_in_the_call_that_writes() -> None:
    code = converted("import json\njson.dump({}, open('a', 'w'))\nz = open('a')\n")
    assert f"json.dump({{}}, open('a' if hvd.rank() == 0 else '/dev/null', 'w'))\n{WAIT}" in code


# Files that are opened, and what is written into them

NOWHERE = " if hvd.rank() == 0 else '/dev/null'"


@pytest.mark.parametrize(
    "opened",
    [
        "tf.io.TFRecordWriter('a'{})",
        "tf.io.TFRecordWriter(path=name{})",
        "tf.data.experimental.TFRecordWriter('a'{})",
        "__import__('csv').writer(open('a'{}, 'w'))",
        "__import__('tarfile').open('a'{}, 'w:gz')",
        "__import__('lzma').open('a'{}, 'wt')",
    ],
)
def test_the_others_write_to_nowhere(opened: str) -> None:
    body = "with {} as writer:\n    writer.write(z)\n{}tf.data.TFRecordDataset('a')\n"
    expected = body.format(opened.format(NOWHERE), WAIT)
    assert converted(body.format(opened.format(""), "")) == expected


def test_writers_in_a_comprehension() -> None:
    code = converted("writers = [tf.io.TFRecordWriter(f'a{n}') for n in range(3)]\n")
    assert code == f"writers = [tf.io.TFRecordWriter(f'a{{n}}'{NOWHERE}) for n in range(3)]\n"


def test_hdf5_is_kept_in_memory_by_the_others() -> None:
    code = converted("import h5py\nh5py.File('a', 'w')\nread = h5py.File('a', 'r')\n")
    elsewhere = "**({} if hvd.rank() == 0 else {'driver': 'core', 'backing_store': False})"
    assert code.endswith(f"h5py.File('a', 'w', {elsewhere})\n{WAIT}read = h5py.File('a', 'r')\n")
    for more in ("'a'", "'r+'", "'w', driver='mpio'", "'w', **more"):
        assert told(f"import h5py\nh5py.File('a', {more})\n") == [("HVD603", "error")]


def test_members_of_archives() -> None:
    body = "import zipfile\nwith zipfile.ZipFile('a') as archive:\n    archive.extract('b')\n"
    act = "jhvd.on_rank_zero(lambda: archive.extract('b'))"
    assert converted(body).endswith(f"    {act}\n")
    assert "rank_zero" not in converted("features.extract('b')\n")
    read = "import tarfile\narchive = tarfile.open('a.tar.xz', 'r:xz')\n"
    assert converted(read) == read


@pytest.mark.parametrize(
    "save",
    [
        "data.save('a'{})",
        "tf.data.Dataset.save(data, 'a'{})",
        "tf.data.experimental.save(data, 'a'{})",
    ],
)
def test_saved_datasets(save: str) -> None:
    """All ranks go through the dataset, whose next order would else differ; what is saved is all of it."""
    body = f"data = tf.data.Dataset.range(9).shuffle(9)\n{save.format('')}\n"
    own = " if hvd.rank() == 0 else jhvd.own_folder()"
    assert save.format(own) in converted(body)
    assert f"{WAIT}again = " in converted(f"{body}again = tf.data.Dataset.load('a')\n")
    trained = converted(f"{body}model.fit(data.batch(3))\n")
    assert "model.fit(jhvd.shard(data.batch(3))," in trained
    assert ".shard(hvd.size()" not in trained


# What other libraries write

IMPORTS = (
    "import cv2, imageio, joblib, matplotlib.pyplot as plt, scipy.io, soundfile as sf, torch\n"
    "from PIL import Image\nfrom scipy.io import wavfile\nfrom pathlib import Path\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "cv2.imwrite('a.png', x)",
        "cv2.imwrite(name, x)",
        "Image.fromarray(x).save('a.png')",
        "imageio.mimsave('a.gif', [x])",
        "plt.imsave('a.png', x)",
        "sf.write('a.wav', x, 16000)",
        "wavfile.write('a.wav', 16000, x)",
        "scipy.io.savemat('a.mat', {'x': x})",
        "joblib.dump(x, 'a')",
        "torch.save(x, 'a')",
        "pd.DataFrame(x).to_feather('a')",
        "table.to_hdf('a.h5', key='x')",
        "x.tofile('a')",
        "figure.write_html(f'{name}.html')",
        "figure.save(os.path.join('b', 'a.png'))",
        "figure.save(Path('b') / name)",
        "figure.export('a.svg')",
    ],
)
def test_what_seems_to_write_is_rank_zeros(line: str) -> None:
    body = converted(f"{IMPORTS}{line}\n").removeprefix(IMPORTS)
    assert body == f"if hvd.rank() == 0:\n    {line}\n"


@pytest.mark.parametrize(
    "line",
    [
        "import csv; table = csv.writer(place)",
        "import json; text = json.dumps({})",
        "import yaml; text = yaml.dump({})",
        "table.to_dict('records')",
        "place.write('text')",
        "place.save()",
        "class Own:\n    def save(self, path):\n        return path\n\n\nOwn().save('a')",
        "import io; place = io.BytesIO(); figure.savefig(place, format='png')",
        "from io import BytesIO\nwith BytesIO() as place:\n    np.save(place, x)",
        "from PIL import Image; import io; place = io.BytesIO(); Image.fromarray(x).save(place, format='PNG')",
        "import io; place = io.StringIO(); table.to_csv(place)",
    ],
)
def test_what_writes_nothing_by_itself(line: str) -> None:
    assert converted(f"{line}\n") == f"{line}\n"


SILENT = " if hvd.rank() == 0 else lambda *args, **kwargs: None"


def test_what_is_written_is_worked_out_by_all() -> None:
    body = "import cv2\n{}('a.png', draw(next(turns)))\n"
    assert converted(body.format("cv2.imwrite")) == body.format(f"(cv2.imwrite{SILENT})")
    body = "figure(next(turns)).write_html('a.html')\n"
    kept = "hvd_written = figure(next(turns))\n"
    assert converted(body) == f"{kept}(hvd_written.write_html{SILENT})('a.html')\n"
    body = "import cv2\nif {}('a.png', draw(next(turns))):\n    z = 1\n"
    sent = f"hvd.broadcast_object((cv2.imwrite{SILENT})('a.png', draw(next(turns))), root_rank=0)"
    assert converted(body.format("cv2.imwrite")).endswith(f"if {sent}:\n    z = 1\n")


@pytest.mark.parametrize(
    "opened",
    [
        "cv2.VideoWriter({}, 0, 1, (8, 8))",
        "pd.ExcelWriter({})",
        "imageio.get_writer({}, fps=2)",
        "sf.SoundFile({}, 'w', 16000)",
        "netCDF4.Dataset({}, mode='w')",
        "codecs.open({}, 'w')",
    ],
)
def test_writers_of_other_libraries(opened: str) -> None:
    """The others write to a file of that name that does not last: what opens it may know it by its ending."""
    body = f"import codecs, cv2, imageio, netCDF4, soundfile as sf\nwriter = {opened}\n"
    assert converted(body.format("'a.b'")) == body.format("jhvd.rank_zero_file('a.b')")


def test_modes_that_are_not_written_there() -> None:
    body = "def go(path, mode):\n    with open(path{}, mode) as file:\n        return file\n\n\ngo('a', {})\n"
    read = body.format("", "'rb'")
    assert converted(read) == read
    choice = " if hvd.rank() == 0 or not set(mode) & set('wax+') else '/dev/null'"
    assert converted(body.format("", "'w'")) == body.format(choice, "'w'")
    assert told("open('a', ['r', 'w'][k])\n") == [("HVD603", "warning")]


def test_paths_that_open_themselves() -> None:
    body = "from pathlib import Path\nwith {} as file:\n    file.write('x')\n"
    opened = "Path('a').open('w', encoding='utf8')"
    choice = f"({opened} if hvd.rank() == 0 else open('/dev/null', 'w', encoding='utf8'))"
    assert converted(body.format(opened)) == body.format(choice)


# What rank 0 may work out alone

PURE = (
    "lambda a: a * 255.",
    "def clean(a):\n    return a * 255.",
    "def clean(a):\n    '''Pixels.'''\n    low, high = a.min(), np.max(a)\n    return (a - low) / high",
    "def clean(a):\n    a = np.clip(a, 0, 1)\n    if a.ndim == 3:\n        a = a[0]\n    return a.astype('uint8')",
    "def clean(a):\n    rows = []\n    for k in range(3):\n        rows.append(np.sqrt(k))\n    return np.array(rows)",
    "def clean(a):\n    n = 0\n    for k in range(3):\n        n += k\n    return n",
    "def half(a):\n    return a / 2\n\n\ndef clean(a):\n    return half(half(a))",
)
IMPURE = (
    "def clean(a):\n    a *= 255.\n    return a",
    "def clean(a):\n    a[0] = 1\n    return a",
    "def clean(a):\n    b = a\n    b -= 1\n    return b",
    "def clean(a):\n    kept.append(a)\n    return a",
    "def clean(a):\n    global n\n    n = 1\n    return a",
    "def clean(a):\n    model.fit(a)\n    return a",
    "def clean(a):\n    return a + np.random.rand()",
    "def clean(a):\n    return a + next(turns)",
    "def clean(a):\n    for b in batches:\n        a = a + b\n    return a",
    "def clean(a):\n    return [b for b in batches]",
    "@other\ndef clean(a):\n    return a",
    "def clean(a):\n    yield a",
    "def clean(a):\n    model.note = a\n    return a",
    "def clean(a):\n    return tf.keras.layers.Dense(1)(a)",
    "def clean(a):\n    return open('b').read()",
    f"def clean(a):\n    return np.load({GET})",
    "def rough(a):\n    print(a)\n    return a\n\n\ndef clean(a):\n    return rough(a)",
    "def clean(a):\n    def fill():\n        kept.append(a)\n    fill()\n    return a",
)


@pytest.mark.parametrize("function", PURE)
def test_pure_functions_of_the_program(function: str) -> None:
    if function.startswith("lambda"):
        function = f"clean = {function}"
    body = f"{function}\n\n\nnp.save('i.npy', clean(x[0]))\n"
    guarded = "if hvd.rank() == 0:\n    np.save('i.npy', clean(x[0]))\n"
    assert converted(body) == body.replace("np.save('i.npy', clean(x[0]))\n", guarded)


@pytest.mark.parametrize("function", IMPURE)
def test_functions_that_may_have_to_run_on_every_rank(function: str) -> None:
    """They do, and rank 0 alone writes what comes of it."""
    code = convert_source(HEAD + f"{function}\n\n\nnp.save('i.npy', clean(x[0]))\n").code
    assert f"(np.save{SILENT})('i.npy', clean(x[0]))\n" in code


def test_methods_are_judged_by_their_own_bodies() -> None:
    head = (
        "class Scale:\n    def mean(self, a):\n        {}\n        return a\n\n\nscale = Scale()\n"
    )
    save = "np.save('i.npy', scale.mean(x))\n"
    assert "if hvd.rank() == 0:\n    np.save(" in converted(head.format("'''Same.'''") + save)
    assert f"(np.save{SILENT})(" in converted(head.format("self.n = 1") + save)


@pytest.mark.parametrize(
    "saved",
    [
        "tf.keras.utils.array_to_img(z).save(path)",
        "Image.fromarray(z).save(path)",
        "Image.fromarray(z).resize((3, 3)).save(path)",
        "pathlib.Path(name).with_name('a').write_text(z)",
        "drawn.save('epoch_{}.png'.format(z))",
        "drawn.save(f'{path}/{z}.gif')",
        "__import__('cv2').imwrite('a.png', z)",
        "__import__('imageio').mimsave('a.gif', [z])",
    ],
)
def test_images_and_paths_are_written_by_rank_zero(saved: str) -> None:
    code = converted(f"import pathlib\nfrom PIL import Image\n{saved}\nz = Image.open('a.png')\n")
    assert f"if hvd.rank() == 0:\n    {saved}\n{WAIT}" in code


def test_a_film_is_written_by_all_ranks_each_in_its_place() -> None:
    body = "import imageio\nname = 'a.gif'\nwith imageio.get_writer({}, mode='I') as writer:\n    writer.append_data(z)\n"
    assert converted(body.format("name")) == body.format("jhvd.rank_zero_file(name)")


def test_a_number_that_is_made_of_itself_is_no_name_of_a_file() -> None:
    """What an unknown function is handed may be a file's name; a sum over a loop was asked for its parts without end."""
    text = (
        "import tensorflow as tf\nimport lib\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\nmodel.fit(x, y)\nn = 0\nfor loss in losses:\n    n = n + 1\n"
        "lib.Writer(n, 'w')\n"
    )
    assert convert_source(text).status == "converted"


@pytest.mark.parametrize(
    ("saved", "read"),
    [
        ("tf.saved_model.save(model, 'm')", "tf.lite.TFLiteConverter.from_saved_model('m')"),
        ("open('m.tflite', 'wb').write(lite)", "tf.lite.Interpreter(model_path='m.tflite')"),
    ],
)
def test_what_tensorflow_lite_reads_is_waited_for(saved: str, read: str) -> None:
    text = (
        "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        f"model.compile('sgd', 'mse')\nmodel.fit(x, y)\n{saved}\nmade = {read}\n"
    )
    assert f"jhvd.wait_for_rank_zero()\nmade = {read}" in convert_source(text).code


def test_a_download_into_the_browser_is_rank_zeros() -> None:
    text = (
        "import tensorflow as tf\nfrom google.colab import files\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\nmodel.fit(x, y)\nfiles.download('vecs.tsv')\n"
    )
    assert "if hvd.rank() == 0:\n    files.download('vecs.tsv')" in convert_source(text).code
