"""Public data sets by name: where they are, how to know them, under what terms they come.

A set may come in several variants (the publisher's files, or the same vectors in one file); the
first variant whose files are all here is taken, else the first that has public addresses is
downloaded. Where no reliable checksum is published, size and shape are checked, and the content
must stay what it was when it was first used (see `checking`): big-ann files, the ann-benchmarks
versions of NYTimes, MNIST and Fashion-MNIST, texmex files.
"""

from __future__ import annotations

from typing import NamedTuple

from sghash.data.checking import RemoteFile


class Variant(NamedTuple):
    """Files that together make the data set, and the loader in `loading.LOADERS` for them."""

    loader: str
    files: tuple[RemoteFile, ...]


class Entry(NamedTuple):
    """A data set: what it is, and the shapes it must have."""

    about: str
    metric: str
    base: tuple[int, int]
    queries: tuple[int, int]
    licence: str
    homepage: str
    variants: tuple[Variant, ...]


def _idx(address: str, *checks: tuple[int, str]) -> Variant:
    """Images and labels for learning, then for testing; size and MD5 of each."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = (
        RemoteFile(f"{name}-ubyte.gz", f"{address}/{name}-ubyte.gz", size, md5=md5)
        for name, (size, md5) in zip(names, checks, strict=True)
    )
    return Variant("idx", tuple(files))


def _local(loader: str, name: str, size: int, sha256: str) -> Variant:
    """A file without a public address: whoever has it puts it into the folder SGHASH_DATA."""
    return Variant(loader, (RemoteFile(name, size=size, sha256=sha256),))


def _ann_benchmarks(name: str, size: int, sha256: str | None) -> Variant:
    address = f"https://ann-benchmarks.com/{name}.hdf5"
    return Variant("hdf5", (RemoteFile(f"{name}.hdf5", address, size, sha256),))


def _texmex(name: str, base_size: int, query_size: int) -> Variant:
    # Published as an archive over FTP only; taken where somebody has unpacked it.
    files = (
        RemoteFile(f"{name}_base.fvecs", size=base_size),
        RemoteFile(f"{name}_query.fvecs", size=query_size),
    )
    return Variant("texmex", files)


_BIGANN = "https://dl.fbaipublicfiles.com/billion-scale-ann-benchmarks"


def _bigann(millions: int) -> Entry:
    rows = millions * 1_000_000
    label = "1B" if millions == 1000 else f"{millions}M"
    queries = RemoteFile(
        "query.public.10K.u8bin", f"{_BIGANN}/bigann/query.public.10K.u8bin", 1_280_008
    )
    truth_name = "GT.public.1B.ibin" if millions == 1000 else f"bigann-{label}"
    truth_path = "bigann/GT.public.1B.ibin" if millions == 1000 else f"GT_{label}/bigann-{label}"
    truth = RemoteFile(truth_name, f"{_BIGANN}/{truth_path}", 8_000_008)
    address = f"{_BIGANN}/bigann/base.1B.u8bin"
    whole = RemoteFile("base.1B.u8bin", address, 128_000_000_008)
    part = RemoteFile(f"base.{label}.u8bin", address, 8 + rows * 128, first_rows=rows)
    variants: tuple[Variant, ...] = (Variant("bigann", (whole, queries, truth)),)
    if millions < 1000:
        # The whole file serves its slices, yet must not be fetched for them.
        local = (RemoteFile(whole.name, None, whole.size), queries, truth)
        variants = (Variant("bigann", (part, queries, truth)), Variant("bigann", local))
    return Entry(
        f"SIFT descriptors, the first {label} of BIGANN",
        "l2",
        (rows, 128),
        (10_000, 128),
        "see the homepage",
        "http://corpus-texmex.irisa.fr",
        variants,
    )


def _glove(width: int, size: int, sha256: str) -> Entry:
    return Entry(
        f"GloVe vectors of words in tweets, {width}-d, as ann-benchmarks publishes them",
        "cosine",
        (1_183_514, width),
        (10_000, width),
        "PDDL 1.0",
        "https://nlp.stanford.edu/projects/glove",
        (_ann_benchmarks(f"glove-{width}-angular", size, sha256),),
    )


#: Every data set that `load_dataset` finds in files, by name.
CATALOG: dict[str, Entry] = {
    "mnist": Entry(
        "handwritten digits, 28 x 28 pixels",
        "l2",
        (60_000, 784),
        (10_000, 784),
        "CC BY-SA 3.0",
        "http://yann.lecun.com/exdb/mnist",
        (
            _local(
                "mnist_npz",
                "mnist.npz",
                11_490_529,
                "3a0f2df974d62ae0916b361a631357d8198665386c175f59933bc92e5747004d",
            ),
            _idx(
                "https://ossci-datasets.s3.amazonaws.com/mnist",
                (9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                (28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
                (1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
                (4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
            ),
        ),
    ),
    "fashion-mnist": Entry(
        "pictures of clothes, 28 x 28 pixels",
        "l2",
        (60_000, 784),
        (10_000, 784),
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
        (
            _idx(
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
                (26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                (29_515, "25c81989df183df01b3e8a0aad5dffbe"),
                (4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
                (5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
            ),
        ),
    ),
    "cifar10": Entry(
        "colour pictures of ten classes, 32 x 32 pixels",
        "l2",
        (50_000, 3072),
        (10_000, 3072),
        "none stated",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            Variant(
                "cifar",
                (
                    RemoteFile(
                        "cifar-10-binary.tar.gz",
                        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                        170_052_171,
                        md5="c32a1d4ab5d03f1284b67883e8d87530",
                    ),
                ),
            ),
        ),
    ),
    "cifar10-jpeg": Entry(
        "CIFAR-10 compressed with JPEG (RMS error 7.9 of 255): not the original pixels",
        "l2",
        (50_000, 3072),
        (10_000, 3072),
        "none stated",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            _local(
                "jpeg",
                "cifar10_jpeg.npz",
                18_384_117,
                "4c71e485be9c991d37c855f64ae824d09dcf28ace33830205e1a14f1b01ac7ae",
            ),
        ),
    ),
    "cifar10-gist": Entry(
        "colour GIST descriptors computed from CIFAR-10: not GIST-1M",
        "l2",
        (30_000, 960),
        (1_000, 960),
        "none stated",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            _local(
                "npz",
                "cifar10_gist960.npz",
                22_004_394,
                "5ce4ebfb2c6d23384e9e6437df1229d7c639a7a9d251084c663575acdb2d744a",
            ),
        ),
    ),
    "sift-photos": Entry(
        "SIFT descriptors of 1,500 photographs, queries from other photographs: not SIFT-1M",
        "l2",
        (500_000, 128),
        (2_000, 128),
        "none stated",
        "",
        (
            _local(
                "npz",
                "sift_photos_500k.npz",
                49_966_054,
                "ed0308f962a825603295a75649105862f47e71b0ed65850a552b12bdd2406859",
            ),
        ),
    ),
    "glove100": Entry(
        "GloVe vectors of 72,291 words, for maximum inner product",
        "ip",
        (71_291, 100),
        (1_000, 100),
        "PDDL 1.0",
        "https://nlp.stanford.edu/projects/glove",
        (
            _local(
                "npz",
                "glove100.npz",
                13_784_432,
                "0e88093fd332b4e7056b1338eaf662b07c59c186be841a11cbb9fcb518bdf055",
            ),
        ),
    ),
    "minilm-wordnet": Entry(
        "all-MiniLM-L6-v2 embeddings of WordNet's definitions",
        "cosine",
        (58_000, 384),
        (500, 384),
        "Apache-2.0 (model), WordNet licence (texts)",
        "https://wordnet.princeton.edu",
        (
            _local(
                "npz",
                "minilm384_wordnet.npz",
                21_460_867,
                "3e6326223f56f37da5fc8c5a088b0dc039a405434c0ab1e5bf25dc0558da2785",
            ),
        ),
    ),
    "sift1m": Entry(
        "SIFT descriptors of photographs, SIFT-1M",
        "l2",
        (1_000_000, 128),
        (10_000, 128),
        "see the homepage",
        "http://corpus-texmex.irisa.fr",
        (
            _ann_benchmarks(
                "sift-128-euclidean",
                525_128_288,
                "dd6f0a6ed6b7ebb8934680f861a33ed01ff33991eaee4fd60914d854a0ca5984",
            ),
            _texmex("sift", 516_000_000, 5_160_000),
        ),
    ),
    "gist1m": Entry(
        "GIST descriptors of photographs, GIST-1M",
        "l2",
        (1_000_000, 960),
        (1_000, 960),
        "see the homepage",
        "http://corpus-texmex.irisa.fr",
        (
            _ann_benchmarks(
                "gist-960-euclidean",
                3_844_648_288,
                "8e95831936bfdbfa0a56086942e2cf98cd703517c67f985914183eb4cdbf026a",
            ),
            _texmex("gist", 3_844_000_000, 3_844_000),
        ),
    ),
    "sift10m": _bigann(10),
    "sift100m": _bigann(100),
    "sift1b": _bigann(1000),
    "word2vec": Entry(
        "word2vec vectors of the 81,291 most frequent words in Google News; 10,000 of them, drawn "
        "once, are the queries",
        "ip",
        (71_291, 300),
        (10_000, 300),
        "none stated",
        "https://code.google.com/archive/p/word2vec",
        (
            Variant(
                "word2vec",
                (
                    RemoteFile(
                        "word2vec-google-news-300.gz",
                        "https://github.com/RaRe-Technologies/gensim-data/releases/download/"
                        "word2vec-google-news-300/word2vec-google-news-300.gz",
                        1_743_563_840,
                        md5="a5e5354d40acb95f9ec66d5977d140ef",
                    ),
                ),
            ),
            Variant(
                "word2vec",
                (RemoteFile("GoogleNews-vectors-negative300.bin.gz", size=1_647_046_227),),
            ),
        ),
    ),
    "glove-25-angular": _glove(
        25, 127_359_688, "51004cb0ae962159f0db507a51fec2b395de14b166f55976c89f16bd2f8b6391"
    ),
    "glove-50-angular": _glove(
        50, 246_711_088, "388b0aedc2dad689549e6587932c8c9efeaf8a95f383f36dc567a40233a11f40"
    ),
    "glove-100-angular": _glove(
        100, 485_413_888, "544af1d5e84e112cd4749571dcfd8ca109818a572f850af75a3a09e093a953c4"
    ),
    "glove-200-angular": _glove(
        200, 962_819_488, "4839085e5a8bb293434a1a66e1aa0193afc3f07c6797a85f1dbd91656172da20"
    ),
    "nytimes-256-angular": Entry(
        "NYTimes articles as bags of words, reduced to 256 dimensions",
        "cosine",
        (290_000, 256),
        (10_000, 256),
        "see the homepage",
        "https://archive.ics.uci.edu/dataset/164/bag+of+words",
        (_ann_benchmarks("nytimes-256-angular", 315_208_288, None),),
    ),
    "mnist-784-euclidean": Entry(
        "MNIST as ann-benchmarks publishes it",
        "l2",
        (60_000, 784),
        (10_000, 784),
        "CC BY-SA 3.0",
        "http://yann.lecun.com/exdb/mnist",
        (_ann_benchmarks("mnist-784-euclidean", 227_528_288, None),),
    ),
    "fashion-mnist-784-euclidean": Entry(
        "Fashion-MNIST as ann-benchmarks publishes it",
        "l2",
        (60_000, 784),
        (10_000, 784),
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
        (_ann_benchmarks("fashion-mnist-784-euclidean", 227_528_288, None),),
    ),
    "deep-image-96-angular": Entry(
        "outputs of a neural network for photographs (DEEP), 10 million",
        "cosine",
        (9_990_000, 96),
        (10_000, 96),
        "see the homepage",
        "https://research.yandex.com/blog/benchmarks-for-billion-scale-similarity-search",
        (
            _ann_benchmarks(
                "deep-image-96-angular",
                3_848_008_288,
                "a0a44dfe80c58e63860862eeea2d34e62cff958dc3aec14fd65263d1d3c751f8",
            ),
        ),
    ),
}
