import json
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pidual.data import AnnotationTable, Inputs, LazyImages, load_inputs, table_inputs, x_rows
from pidual.data.images import random_boxes
from pidual.data.inputs import feature_names
from pidual.errors import DataError, DataWarning, UsageError


def table_of(items):
    labels = [row % 2 for row in range(len(items))]
    return AnnotationTable.from_frame(pd.DataFrame({"item": items, "label": labels}))


def write(folder, content, name="x.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def draw(folder, name, size=(4, 6), color=(255, 0, 10), mode="RGB"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (size[1], size[0]), color).save(path)
    return path


# --- arrays ---


def test_npy_is_mapped_and_never_written_back(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    inputs = load_inputs(tmp_path / "x.npy")
    assert isinstance(inputs.array, np.memmap)
    inputs.array[0, 0] = 99
    assert np.load(tmp_path / "x.npy")[0, 0] == 0
    assert (inputs.kind, inputs.names, inputs.tensors) == ("array", None, {})
    assert inputs.schema == {"kind": "array", "shape": [2]}
    assert len(inputs) == 3


def test_npz_with_names(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.eye(3), item=np.array([7, 5, 6]))
    inputs = load_inputs(tmp_path / "x.npz")
    assert inputs.names.tolist() == ["7", "5", "6"]
    assert x_rows(inputs, table_of([5, 6, 7, 5])).tolist() == [1, 2, 0, 1]


def test_npz_arrays_of_other_names_are_a_warning(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.eye(2), items=["a", "b"], y=[0, 1])
    with pytest.warns(DataWarning, match=r"^items, y of .*x\.npz not used: inputs are 'x' and their names 'item'"):
        assert load_inputs(tmp_path / "x.npz").names is None


def test_array_errors(tmp_path):
    np.savez(tmp_path / "a.npz", data=np.eye(2))
    with pytest.raises(UsageError, match=r"a\.npz has no array 'x' \(it has: data\)"):
        load_inputs(tmp_path / "a.npz")
    np.savez(tmp_path / "c.npz", x=np.eye(2), item=["a", "a"])
    with pytest.raises(DataError, match=r"c\.npz, row 1 .*'a' was named before \(.*row 0"):
        load_inputs(tmp_path / "c.npz")
    with pytest.raises(DataError, match=r"mine, row 1, column 0 .*: the value is -inf"):
        Inputs.from_array(np.array([[1.0], [-np.inf]]), source="mine")


def test_values_that_are_not_finite_are_found_in_any_block():
    array = np.zeros((9000, 1000), np.float32)  # 36 MB: three blocks
    assert load_inputs(array).array is array
    array[8765, 43] = np.nan
    with pytest.warns(DataWarning, match="x: 1 of 9,000 values of the input column 43 is missing"):
        assert load_inputs(array).array[8764:8767, -1].tolist() == [0, 1, 0]
    array[8765, 43] = np.inf
    with pytest.raises(DataError, match=r"x, row 8765, column 43 .*the value is inf"):
        load_inputs(array)


# --- columns ---


def test_numeric_columns_of_a_file(tmp_path):
    path = write(tmp_path, ',item,b,name,a,flag\n0,00017,1,"x\ny",0.5,1\n1,00018,2,z,1.5,0\n')
    with pytest.warns(DataWarning, match=r"^name of .*x\.csv not used as input: not numbers"):
        inputs = load_inputs(path)
    assert inputs.array.dtype == np.float32
    assert inputs.array.tolist() == [[1, 0.5, 1], [2, 1.5, 0]]
    assert inputs.names.tolist() == ["00017", "00018"]
    assert inputs.schema == {"kind": "columns", "shape": [3], "columns": ["b", "a", "flag"]}
    assert load_inputs(path, columns=["a", "b"]).array.tolist() == [[0.5, 1], [1.5, 2]]


def test_parquet_frame_and_json_lines_agree(tmp_path):
    frame = pd.DataFrame({"item": ["p", "q"], "a": [1, 2], "b": [True, False], "c": ["x", "y"]}, index=[5, 6])
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    for source in (frame, tmp_path / "x.parquet", tmp_path / "x.jsonl"):
        with pytest.warns(DataWarning, match=r"^c of .* not used as input: not numbers"):
            inputs = load_inputs(source)
        assert inputs.array.tolist() == [[1, 1], [2, 0]]
        assert inputs.names.tolist() == ["p", "q"]


def test_columns_that_are_not_numbers_are_named(tmp_path):
    path = write(tmp_path, "picture,label,a,c,d,e,f,g,h\np,cat,1,yes,50%,x,y,z,True\n")
    with pytest.warns(DataWarning) as caught:
        assert load_inputs(path, item="picture").schema["columns"] == ["a"]
    (warning,) = caught
    assert str(warning.message).startswith(f"c, d, e, f, g and 1 more of {path} not used as input: not numbers; ")
    assert warning.filename == __file__
    assert load_inputs(path, item="picture", columns=["a"]).array.tolist() == [[1]]


@pytest.mark.parametrize("name", ["id", "ID", "image_id", "IMAGE_ID", "imageId", "imageID", "image id"])
def test_numbers_that_may_be_names_are_a_warning(tmp_path, name):
    frame = pd.DataFrame({name: [7, 5, 6], "a": [1.5, 2.5, 3.5]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    for source in (frame, tmp_path / "x.csv"):
        with pytest.warns(DataWarning, match=rf"^{name} of .* is used as input; if it names the items, use item="):
            assert load_inputs(source).schema["columns"] == [name, "a"]
        assert load_inputs(source, item=name).names.tolist() == ["7", "5", "6"]
        load_inputs(source, columns=[name, "a"])


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ('item,a,b\n"p\n",1,2\nq,1,inf\n', ["line 4", "column 'b'", "inf"]),
        ("item,a\np,1\nq,2\np,3\n", ["line 4", "column 'item'", "'p' was named before", "line 2"]),
        ("item,a\np,1\n,2\n", ["line 3", "column 'item'", "missing"]),
        ("item,c\np,x\n", ["no numeric column", "item, c", "--x-text"]),
    ],
)
def test_tables_that_cannot_be_inputs(tmp_path, content, parts):
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        load_inputs(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


def test_columns_that_cannot_be_inputs(tmp_path):
    path = write(tmp_path, "item,a,c\np,1,x\n")
    with pytest.raises(UsageError, match=r"no column 'aa'.*did you mean 'a'"):
        load_inputs(path, columns=["aa"])
    with pytest.raises(UsageError, match="twice"):
        load_inputs(path, columns=["a", "a"])
    with pytest.raises(UsageError, match=r"--x-columns.*--x-text.*not both"):
        load_inputs(path, columns=["a"], text="c")
    with pytest.warns(DataWarning, match="^b of .* not used as input: not every value is a number"):
        assert load_inputs(write(tmp_path, "item,a,b\np,1,2\nq,1,oops\nr,1,3\n")).schema["columns"] == ["a"]
    path = write(tmp_path, "item,a,c\np,1,x\n")
    with pytest.raises(DataError, match=r"line 2, column 'c': 'x' is not a number"):
        load_inputs(path, columns=["a", "c"])
    with pytest.raises(DataError, match=r"table, column 'c' does not hold numbers"):
        load_inputs(pd.DataFrame({"c": ["x"]}), columns=["c"])
    with pytest.raises(DataError, match="no rows"):
        load_inputs(write(tmp_path, "item,a\n"), columns=["a"])


def test_schema_fixes_number_and_order_of_columns(tmp_path):
    schema = json.loads(json.dumps(load_inputs(write(tmp_path, "b,a\n1,2\n")).schema))
    assert load_inputs(write(tmp_path, "c,a,b\n7,3,4\n"), schema=schema).array.tolist() == [[4, 3]]
    with pytest.raises(DataError, match=r"1 of the 2 features .*no column 'b'"):
        load_inputs(write(tmp_path, "a,c\n1,2\n"), schema=schema)
    assert load_inputs(np.ones((5, 2)), schema=schema).array.shape == (5, 2)
    with pytest.raises(DataError, match=r"x has 3 features per input .* trained with 2"):
        load_inputs(np.ones((5, 3)), schema=schema)


# --- text ---

TEXTS = ["the cat sat on the mat", "a dog barked at the cat", "dogs and cats, again", "mat and dog", "cat mat"]


def test_text_becomes_vectors_that_a_schema_makes_again(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"item": range(5), "words": TEXTS}).to_parquet(path)
    inputs = load_inputs(path, text="words")
    assert inputs.array.dtype == np.float32
    assert inputs.kind == "text"
    assert inputs.array.shape == (5, inputs.schema["shape"][0])
    schema = json.loads(json.dumps(inputs.schema))
    assert set(inputs.tensors) == {"idf", "components"}
    again = load_inputs(path, schema=schema, tensors=inputs.tensors)
    np.testing.assert_allclose(again.array, inputs.array, atol=1e-6)
    one = load_inputs(pd.DataFrame({"words": [TEXTS[1]]}), schema=schema, tensors=inputs.tensors)
    np.testing.assert_allclose(one.array[0], inputs.array[1], atol=1e-6)
    # with as many components as texts nothing is lost: products of rows are those of TF-IDF, whose rows have length 1
    np.testing.assert_allclose((inputs.array**2).sum(1), 1, atol=1e-4)
    with pytest.raises(UsageError, match="tensors"):
        load_inputs(path, schema=schema)


def test_text_that_is_empty(tmp_path):
    with pytest.warns(DataWarning, match="1 of 3 texts"):
        inputs = load_inputs(pd.DataFrame({"t": ["one two", None, "two three"]}), text="t")
    assert not inputs.array[1].any()
    assert load_inputs(pd.DataFrame({"t": ["one", "one"]}), text="t").array.tolist() == [[1], [1]]
    with pytest.raises(DataError, match="column 't' holds no words"):
        load_inputs(pd.DataFrame({"t": ["?", "!"]}), text="t")
    with pytest.raises(UsageError, match="no column 'text'"):
        load_inputs(write(tmp_path, "item,t\n1,a\n"), text="text")


# --- inputs from the table itself ---


def test_table_inputs_store_an_item_once(tmp_path):
    path = write(tmp_path, "task,label,a\nq,0,1\np,1,2\nq,1,1\np,0,2\n")
    inputs = table_inputs(path, columns=["a"])
    assert inputs.array.tolist() == [[1], [2]]
    assert inputs.names.tolist() == ["q", "p"]
    assert x_rows(inputs, table_of(["q", "p", "q", "p"])).tolist() == [0, 1, 0, 1]


def test_table_inputs_errors(tmp_path):
    path = write(tmp_path, 'item,label,a,t\nq,0,1,x\np,1,2,"y\n"\nq,1,3,z\n')
    with pytest.raises(DataError, match=r"line 5, column 'a': '3.0' differs from an earlier row .*in 1 items.*--pi"):
        table_inputs(path, columns=["a"])
    with pytest.raises(DataError, match=r"line 5, column 't': 'z' differs from an earlier row"):
        table_inputs(path, text="t")
    with pytest.raises(UsageError, match=r"columns=.*text="):
        table_inputs(path)


def test_inputs_of_an_item_that_differ_a_little_are_its_first(tmp_path):
    path = write(tmp_path, "item,a,b\nq,1,\np,2,5\nq,1.5,7\np,2,5\nr,3,6\nr,3,\n")
    with pytest.warns(DataWarning) as caught:
        inputs = table_inputs(path, columns=["a", "b"])
    assert [str(one.message) for one in caught] == [
        f"{path}: the inputs of 1 of 3 items differ between their rows; the first value is used (first: line 4, column "
        "'a': '1.5' after '1.0')."
    ]
    assert inputs.array.tolist() == [[1, 7], [2, 5], [3, 6]]  # of b the first value that there is


# --- missing numbers ---


def test_missing_numbers_have_a_flag_that_prediction_has_too(tmp_path):
    path = write(tmp_path, "item,a,b,c\np,1,2,3\nq,,4,\nr,5,6,4\ns,9,8,9\n")
    with pytest.warns(DataWarning, match=r"x.csv: 2 of 8 values of the input columns a, c are missing; the median"):
        inputs = load_inputs(path)
    assert inputs.array.tolist() == [[1, 2, 3, 0, 0], [5, 4, 4, 1, 1], [5, 6, 4, 0, 0], [9, 8, 9, 0, 0]]
    assert inputs.schema["missing"] == {"columns": [0, 2], "medians": [5.0, 4.0]}
    assert inputs.schema["shape"] == [5]
    assert feature_names(inputs.schema) == ["a", "b", "c", "a is missing", "c is missing"]
    schema = json.loads(json.dumps(inputs.schema))
    again = load_inputs(pd.DataFrame({"c": [1.0, np.nan], "b": [2, 2], "a": [np.nan, 3]}), schema=schema)
    assert again.array.tolist() == [[5, 2, 1, 1, 0], [3, 2, 4, 0, 1]]
    bare = load_inputs(np.array([[1, 2, np.nan]]), schema=schema)
    assert bare.array.tolist() == [[1, 2, 4, 0, 1]]
    with pytest.raises(
        DataError, match=r"x, row 0, column 1 .*the value is missing, and none was in this column in training"
    ):
        load_inputs(np.array([[1, np.nan, 3]]), schema=schema)
    with pytest.raises(DataError, match="x has 2 features per input where the model was trained with 3"):
        load_inputs(np.array([[1.0, 3]]), schema=schema)
    with pytest.raises(DataError, match=r"row 0, column 0, 1 .*the value is nan"):
        load_inputs(np.array([[[1, np.nan]]]))
    with pytest.raises(DataError, match=r"x, row 0, column 1 .*missing here and in all other rows"):
        load_inputs(np.array([[1, np.nan], [1, np.nan]]))


# --- images ---


def test_folder_of_images(tmp_path):
    draw(tmp_path, "b/two.png", color=(0, 1, 2))
    draw(tmp_path, "a.PNG", color=7, mode="L")
    draw(tmp_path, ".hidden.png")
    write(tmp_path, "text", "notes.txt")
    inputs = load_inputs(tmp_path)
    assert inputs.array.shape == (2, 3, 4, 6)
    assert inputs.array.dtype == np.uint8
    assert inputs.names.tolist() == ["a.PNG", "b/two.png"]
    assert inputs.array[0].min() == inputs.array[0].max() == 7
    assert inputs.array[1, :, 0, 0].tolist() == [0, 1, 2]
    assert inputs.schema == {"kind": "images", "shape": [3, 4, 6], "image_size": [4, 6]}


@pytest.mark.parametrize(
    "items",
    [
        ["a/one.png", "b/two.jpg"],
        ["a/one", "b/two"],
        ["one.png", "two.jpg"],
        ["one", "./b/two.jpg"],
        ["a\\one", "two"],
        ["https://example.org/x/one.png?key=5", "s3://bucket/two.jpg"],
        ["/data/upload/3/1f2e3d4c-one.png", "/data/local-files/?d=photos%2Ftwo.jpg"],
    ],
)
def test_images_are_found_by_any_unambiguous_name(tmp_path, items):
    draw(tmp_path, "a/one.png")
    draw(tmp_path, "b/two.jpg")
    assert x_rows(load_inputs(tmp_path), table_of([items[1], items[0]] * 2)).tolist() == [1, 0, 1, 0]


def test_ambiguous_and_unknown_image_names(tmp_path):
    draw(tmp_path, "a/one.png")
    draw(tmp_path, "b/one.png")
    inputs = load_inputs(tmp_path)
    with pytest.raises(DataError, match=r"'one' could be 'a/one.png' or 'b/one.png'"):
        x_rows(inputs, table_of(["one", "a/one"] * 2))
    assert x_rows(inputs, table_of(["b/one", "a/one"] * 2)).tolist() == [1, 0, 1, 0]
    with pytest.raises(DataError, match=r"no input for 1 of the 2 items"):
        x_rows(inputs, table_of(["c/one.png", "a/one"] * 2))  # a folder that is not there is no address


def test_image_sizes(tmp_path):
    draw(tmp_path, "a.png", size=(4, 6))
    draw(tmp_path, "b.png", size=(8, 8))
    with pytest.raises(DataError, match=r"b\.png is 8x8 pixels and the first image 4x6.*--image-size"):
        load_inputs(tmp_path)
    assert load_inputs(tmp_path, image_size=5).array.shape == (2, 3, 5, 5)
    inputs = load_inputs(tmp_path, image_size=(3, 7))
    assert inputs.array.shape == (2, 3, 3, 7)
    assert load_inputs(tmp_path, schema=inputs.schema).array.shape == (2, 3, 3, 7)
    with pytest.raises(DataError, match=r"has 2 features per input .* 3x3x7"):
        load_inputs(np.ones((1, 2)), schema=inputs.schema)


def test_untidy_images(tmp_path):
    Image.fromarray(np.full((4, 6), 40000, np.uint16)).save(tmp_path / "deep.png")
    palette = Image.new("P", (6, 4), 0)
    palette.putpalette([9, 8, 7] * 256)
    palette.save(tmp_path / "palette.png", transparency=bytes([128] * 256))
    turned = Image.new("RGB", (4, 6))
    exif = turned.getexif()
    exif[0x0112] = 6  # shown a quarter turned: 4 high, 6 wide
    turned.save(tmp_path / "turned.jpg", exif=exif)
    array = load_inputs(tmp_path).array
    assert array.shape == (3, 3, 4, 6)
    assert (array[0] == 40000 >> 8).all()
    assert array[1, :, 0, 0].tolist() == [9, 8, 7]


def test_broken_images(tmp_path):
    with pytest.raises(DataError, match=r"no images .*\.png"):
        load_inputs(tmp_path)
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    write(tmp_path, whole[: len(whole) // 2], "cut.png")
    with pytest.raises(DataError, match=r"cut\.png cannot be read as an image .*truncated"):
        load_inputs(tmp_path)
    write(tmp_path, "no image", "bad.jpg")
    with pytest.raises(DataError, match=r"bad\.jpg cannot be read as an image"):
        load_inputs(tmp_path, max_bytes=0)


def test_images_beyond_the_limit_stay_on_disk(tmp_path):
    for value in range(4):
        draw(tmp_path, f"{value}.png", color=(value, 0, 0))
    lazy = load_inputs(tmp_path, max_bytes=100).array
    held = load_inputs(tmp_path).array
    assert isinstance(lazy, LazyImages)
    assert lazy.shape == held.shape
    assert len(lazy) == 4
    rows = np.array([3, 0, 3])
    np.testing.assert_array_equal(lazy.take(rows), held[rows])


def test_the_centre_of_images(tmp_path):
    """224 of 256 pixels of the short side, scaled by Pillow's bicubic interpolation."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    inputs = load_inputs(tmp_path, image_size=56, centre_crop=True)
    np.testing.assert_array_equal(inputs.array[0], noise[4:60, 20:76].transpose(2, 0, 1))
    assert inputs.schema["centre_crop"] is True
    again = load_inputs(tmp_path, schema=inputs.schema)
    np.testing.assert_array_equal(again.array, inputs.array)
    smaller = load_inputs(tmp_path, image_size=14, centre_crop=True, max_bytes=0).array.take(np.array([0]))[0]
    expected = Image.fromarray(noise).resize((14, 14), Image.Resampling.BICUBIC, box=(20, 4, 76, 60))
    np.testing.assert_array_equal(smaller, np.asarray(expected).transpose(2, 0, 1))
    with pytest.raises(UsageError, match="centre_crop needs a size"):
        load_inputs(tmp_path, centre_crop=True)


def test_random_crops_of_images_on_disk(tmp_path):
    rng = np.random.default_rng(0)
    shapes = [(40, 60), (30, 30), (20, 90)]
    for name, shape in enumerate(shapes):
        Image.fromarray(rng.integers(0, 256, (*shape, 3), np.uint8)).save(tmp_path / f"{name}.png")
    lazy = load_inputs(tmp_path, image_size=(8, 12), max_bytes=0).array
    rows, draws = np.array([2, 0, 2]), rng.random((2, 3, 4))
    crops = lazy.crops(rows, draws)
    assert crops.shape == (2, 3, 3, 8, 12)
    for view in range(2):
        for place, row in enumerate(rows):
            ((top, left, height, width),) = random_boxes(*shapes[row], draws[view, place, None])
            pixels = np.asarray(Image.open(tmp_path / f"{row}.png"))[top : top + height, left : left + width]
            expected = Image.fromarray(pixels).resize((12, 8), Image.Resampling.BICUBIC)
            np.testing.assert_array_equal(crops[view, place], np.asarray(expected).transpose(2, 0, 1))
    write(tmp_path, "no image", "1.png")
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image"):
        lazy.crops(np.array([1]), draws[:, :1])


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 333), (224, 224), (100, 1000), (3, 2), (1, 1)])
def test_random_boxes_lie_inside_and_have_the_area_and_aspect_asked_for(height, width):
    draws = np.random.default_rng(0).random((2000, 4))
    draws[:4] = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 1, 0]]
    for (top, left, high, wide), draw in zip(random_boxes(height, width, draws), draws, strict=True):
        assert 0 <= top <= top + high <= height
        assert 0 <= left <= left + wide <= width
        assert high >= 1
        assert wide >= 1
        if min(height, width) < 200:
            continue
        assert 3 / 4 - 0.02 < wide / high < 4 / 3 + 0.02
        assert abs(wide / high - (3 / 4 + draw[0] * (4 / 3 - 3 / 4))) < 0.02
        assert 0.078 < high * wide / (height * width) <= 1


# --- joining ---


def test_bare_array_as_long_as_the_table_goes_row_by_row():
    alike = np.array([[1.0, 2], [3, 4], [1, 2], [3, 4]])
    assert x_rows(load_inputs(alike), table_of(["b", "a", "b", "a"])).tolist() == [0, 1, 2, 3]
    assert x_rows(load_inputs(np.eye(4)), table_of([0, 1, 2, 3])).tolist() == [0, 1, 2, 3]
    with pytest.warns(DataWarning, match="row by row"):
        assert x_rows(load_inputs(np.eye(4)), table_of([3, 1, 2, 0])).tolist() == [0, 1, 2, 3]


def test_rows_of_one_item_that_differ_are_a_warning():
    alike = np.array([[1.0, 2], [3, 4], [1, 2], [3, 5]])
    expected = r"^{} is read row by row, .* rows 1 and 3 \(counted from 0\) are of one item \({}\) and differ; .* {}\.$"
    with pytest.warns(DataWarning, match=expected.format("x", "'a'", "as .npz with 'x' and 'item'")):
        assert x_rows(load_inputs(alike), table_of(["b", "a", "b", "a"])).tolist() == [0, 1, 2, 3]
    with pytest.warns(DataWarning, match=expected.format("table", "9", "a column 'item'")):
        x_rows(load_inputs(pd.DataFrame(alike, columns=["u", "v"])), table_of([8, 9, 8, 9]))


def test_bare_array_is_indexed_by_integer_items():
    assert x_rows(load_inputs(np.eye(3)), table_of([2, 0, 1, 2])).tolist() == [2, 0, 1, 2]
    with pytest.warns(DataWarning, match="2 of 5 rows of x have no annotation and are not used"):
        assert x_rows(load_inputs(np.eye(5)), table_of([2, 0, 1, 2])).tolist() == [2, 0, 1, 2]
    with pytest.raises(DataError, match=r"no input for 2 of the 3 items of table: 7, -1; it has 3 rows"):
        x_rows(load_inputs(np.eye(3)), table_of([2, 7, -1, 2]))
    with pytest.raises(DataError, match=r"x has 3 rows without names and table has 4 rows .*'item'"):
        x_rows(load_inputs(np.eye(3)), table_of(["a", "b", "a", "b"]))


def test_inputs_that_nobody_labelled_are_a_warning():
    inputs = load_inputs(pd.DataFrame({"item": [1, 2, 3], "a": [1, 2, 3]}))
    with pytest.warns(DataWarning, match="1 of 3 rows of table have no annotation"):
        assert x_rows(inputs, table_of([3, 1, 3, 1])).tolist() == [2, 0, 2, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x_rows(inputs, table_of([3, 1, 2, 1]))


def test_two_items_of_one_image_are_a_warning(tmp_path):
    for name in ("a.png", "b.png"):
        draw(tmp_path, name)
    expected = (
        rf"^'a' and 'a\.png' in table refer to the same input of {tmp_path} but count as two items; use one spelling"
    )
    with pytest.warns(DataWarning, match=expected):
        assert x_rows(load_inputs(tmp_path), table_of(["a", "b", "a.png", "b"])).tolist() == [0, 1, 0, 1]
    with pytest.warns(DataWarning, match=r"\(so are those of 1 more\)"):
        x_rows(load_inputs(tmp_path), table_of(["a", "b", "a.png", "./b"]))
