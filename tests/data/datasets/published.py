"""Small datasets in exactly the formats their authors publish."""

import struct

import numpy as np
import torch

BATCH = 20  # images a file of CIFAR has here; see the fixture small_cifar


def images(n, n_classes, seed):
    """Random images with labels."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 3072)).astype(np.uint8), np.arange(n) % n_classes


def write_cifar10(data, batches=(1, 2, 3, 4, 5)):
    """Binary version; returns pixels and labels of the training batches written, and of the test batch."""
    folder = data / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    parts = []
    for seed, name in enumerate(["test_batch", *(f"data_batch_{k}" for k in range(1, 6))]):
        x, y = images(BATCH, 10, seed)
        if name == "test_batch" or seed in batches:
            records = np.concatenate([y[:, None].astype(np.uint8), x], axis=1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
            parts.append((x.reshape(-1, 3, 32, 32), y))
    (test, *train) = parts
    return tuple(np.concatenate(some) for some in zip(*train, strict=True)), test


def write_cifar100(data):
    """Binary version; returns (pixels, fine, coarse) of train and test."""
    folder = data / "cifar-100-binary"
    folder.mkdir(parents=True)
    parts = []
    for seed, (name, n) in enumerate({"train": 5 * BATCH, "test": BATCH}.items()):
        x, fine = images(n, 100, seed)
        coarse = fine // 5
        records = np.concatenate([coarse[:, None], fine[:, None], x], axis=1).astype(np.uint8)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
        parts.append((x.reshape(-1, 3, 32, 32), fine, coarse))
    (folder / "fine_label_names.txt").write_text("".join(f"fine_{k}\n" for k in range(100)))
    (folder / "coarse_label_names.txt").write_text("".join(f"coarse_{k}\n" for k in range(20)))
    return parts


def python2_pickle(content):
    """A pickle of protocol 2 as Python 2 writes it, where text is bytes: dicts, lists, ints, text and uint8 arrays."""
    return b"\x80\x02" + _python2(content) + b"."


def _python2(value):
    if isinstance(value, dict):
        return b"}(" + b"".join(_python2(key) + _python2(part) for key, part in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_python2, value)) + b"e"
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    dtype = b"cnumpy\ndtype\n" + _python2("u1") + b"K\x00K\x01\x87R(K\x03" + _python2("|") + b"NNN" + _python2(-1) * 2
    raw = value.tobytes()
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + _python2("b") + b"\x87R(K\x01"
    shape = b"(" + b"".join(map(_python2, value.shape)) + b"t"
    return start + shape + dtype + b"K\x00tb\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"


RAW_HEADER = (
    "annotator_id,trial_index,is_attn_check,true_category,chosen_category,true_label,chosen_label,correct_guess,"
    "cifar10_test_test_idx,image_filename,subcategory,reaction_time,time_elapsed"
)
NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()  # noqa: SIM905


def raw_rows(y, n_annotators=6, seed=0):
    """Rows of CIFAR-10H's raw table: every annotator sees every image, in an own order, and an attention check."""
    rng = np.random.default_rng(seed)
    rows = []
    for annotator in range(n_annotators):
        order = [*rng.permutation(len(y)).tolist(), None]
        for trial, image in enumerate(order):
            true = int(y[image]) if image is not None else int(rng.integers(10))
            chosen = true if rng.random() < 0.8 else int(rng.integers(10))
            index, check = (image, 0) if image is not None else (-99999, 1)
            time = round(rng.gamma(2, 800), 3) if rng.random() > 0.05 else -12.0
            rows.append(
                [
                    *(annotator, trial, check, NAMES[true], NAMES[chosen], true, chosen, int(true == chosen), index),
                    *(f"{NAMES[true]}_s_000{trial}.png", NAMES[true], time, 1000 * trial),
                ]
            )
    return rows


def raw_csv(rows):
    return "\n".join([RAW_HEADER, *(",".join(map(str, row)) for row in rows)]) + "\n"


def write_cifar10n(data, y, seed=0):
    """Labels as torch saves them and side information, for CIFAR-10's five training batches; returns both."""
    rng = np.random.default_rng(seed)
    random = [np.where(rng.random(len(y)) < 0.7, y, rng.integers(0, 10, len(y))) for _ in range(3)]
    stacked = np.stack(random)
    pick = np.array([next((j for j in (2, 1, 0) if stacked[j, i] != y[i]), 0) for i in range(len(y))])
    labels = {
        "clean_label": y.astype(np.int64),
        "aggre_label": stacked[rng.integers(0, 3, len(y)), np.arange(len(y))],
        "worse_label": stacked[pick, np.arange(len(y))],
        **{f"random_label{j + 1}": values for j, values in enumerate(random)},
    }
    side = rng.integers(0, 50, (len(y) // 10, 6))
    write_side_info(data / "cifar-n" / "side_info_cifar10N.csv", side, images=10)
    torch.save(labels, data / "cifar-n" / "CIFAR-10_human.pt")
    return labels, side


def write_side_info(path, side, images):
    path.parent.mkdir(exist_ok=True)
    numbers = ["1", "2", "3"] if side.shape[1] == 6 else [""]
    header = ["Image-batch"]
    for number in numbers:
        header += [f"Worker{number}-id", "Work-time-in-seconds" + (f"-{number}" if number else "")]
    lines = [",".join(header)]
    for row, values in enumerate(side):
        lines.append(f"{row * images}--{row * images + images - 1}," + ",".join(map(str, values)))
    path.write_text("\n".join(lines))  # as published, without a last line break
