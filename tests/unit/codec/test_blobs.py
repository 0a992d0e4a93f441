"""Blobs in a folder: whole or not at all, by their hash, without following links; and references to them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.codec.blobs import DamagedBlobError, FolderBlobs
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.errors import CorruptRecordError, InvalidOptionError, StoreFullError, StoreUnavailableError
from tests.unit.codec.layered import at

CONTENT = b"a large payload " * 1000
NAME = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "blobs"


@pytest.fixture
def blobs(folder: Path) -> FolderBlobs:
    return FolderBlobs(folder)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_content_is_kept_once_under_its_hash(blobs: FolderBlobs, folder: Path) -> None:
    assert [blobs.put(CONTENT) for _ in range(3)] == [NAME] * 3

    assert (blobs.get(NAME), FolderBlobs(folder).get(NAME)) == (CONTENT, CONTENT)
    assert [path.name for path in folder.iterdir()] == [NAME]
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600


@given(contents=st.lists(st.binary()))
@settings(max_examples=30)
def test_every_content_comes_back(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    blobs = FolderBlobs(tmp_path_factory.mktemp("blobs"))

    names = [blobs.put(content) for content in contents]
    assert [blobs.get(name) for name in names] == contents


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../secret", "/etc/passwd", NAME + "/", NAME + "\n", NAME.upper(), NAME[:-1], "a\0b", ".hidden"],
)
def test_a_name_that_is_no_hash_opens_nothing(blobs: FolderBlobs, folder: Path, name: str) -> None:
    (folder.parent / "secret").write_text("secret")
    blobs.put(CONTENT)

    with pytest.raises(LookupError):
        blobs.get(name)


def test_what_is_not_there_is_not_found(blobs: FolderBlobs) -> None:
    with pytest.raises(LookupError, match=f"there is no blob {NAME}"):
        blobs.get(NAME)


def test_links_are_not_followed_and_are_replaced_by_the_content(blobs: FolderBlobs, folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.write_bytes(CONTENT)
    (folder / NAME).symlink_to(elsewhere)

    with pytest.raises(DamagedBlobError, match="is a link"):
        blobs.get(NAME)
    blobs.put(CONTENT)
    assert (blobs.get(NAME), (folder / NAME).is_symlink()) == (CONTENT, False)
    assert elsewhere.read_bytes() == CONTENT


def test_the_folder_itself_may_not_become_a_link(blobs: FolderBlobs, folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.with_name("moved"))

    with pytest.raises(OSError):
        blobs.put(CONTENT)


def test_neither_a_pipe_nor_a_folder_is_a_blob(blobs: FolderBlobs, folder: Path) -> None:
    os.mkfifo(folder / NAME)
    with pytest.raises(DamagedBlobError, match="is not a file"):
        blobs.get(NAME)
    (folder / NAME).unlink()
    (folder / NAME).mkdir()
    with pytest.raises(DamagedBlobError, match="is not a file"):
        blobs.get(NAME)


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], CONTENT + b"x", b"X" + CONTENT[1:]])
def test_damaged_content_is_found_and_mended_by_the_next_put(blobs: FolderBlobs, folder: Path, damaged: bytes) -> None:
    blobs.put(CONTENT)
    (folder / NAME).write_bytes(damaged)

    with pytest.raises(DamagedBlobError, match="another content"):
        blobs.get(NAME)
    assert blobs.put(CONTENT) == NAME
    assert blobs.get(NAME) == CONTENT


# --- durability ---


def test_a_blob_is_forced_to_disk_before_it_has_its_name_and_its_name_before_put_returns(
    blobs: FolderBlobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(handle: int) -> None:
        order.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        fsync(handle)

    def noted_rename(*args: Any, **kwargs: Any) -> None:
        order.append("rename")
        rename(*args, **kwargs)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    blobs.put(CONTENT)
    assert order == ["sync file", "rename", "sync folder"]
    blobs.put(CONTENT)
    assert order[3:] == ["sync folder"]


CRASHING = """
import os, sys
from stepwell.codec import blobs as module

left = int(sys.argv[2])

def crash_before(name, module=os):
    real = getattr(module, name)
    def call(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return real(*args, **kwargs)
    setattr(module, name, call)

blobs = module.FolderBlobs(sys.argv[1])
for name in ("open", "fsync", "rename", "fdopen", "close"):
    crash_before(name)

class File:
    def __init__(self, file): self.file = file
    def __enter__(self): return self
    def __exit__(self, *_): self.file.close()
    def flush(self): self.file.flush()
    def read(self): return self.file.read()
    def write(self, content):
        half = len(content) // 2
        self.file.write(content[:half])
        self.file.flush()
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        self.file.write(content[half:])

fdopen = os.fdopen
os.fdopen = lambda *args, **kwargs: File(fdopen(*args, **kwargs))
blobs.put(b"a large payload " * 1000)
"""


def test_killed_at_any_point_no_half_blob_is_ever_visible(folder: Path) -> None:
    ends = []
    for point in range(30):
        died = subprocess.run([sys.executable, "-c", CRASHING, str(folder), str(point)]).returncode
        ends.append((died, visible(folder)))
        for name in visible(folder):
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == name
        if died == 0:
            break
        (folder / NAME).unlink(missing_ok=True)

    assert ends[0] == (9, [])
    assert (9, [NAME]) in ends  # killed after the rename
    assert ends[-1] == (0, [NAME])
    assert sum(died == 9 for died, _ in ends) >= 7
    assert FolderBlobs(folder).get(NAME) == CONTENT


def test_a_failed_write_leaves_nothing(blobs: FolderBlobs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        blobs.put(CONTENT)
    assert list(folder.iterdir()) == []


# --- references ---


def test_only_what_is_above_the_limit_is_offloaded(blobs: FolderBlobs, folder: Path) -> None:
    codec = Offloaded(JsonCodec(), blobs, above=1_000)
    below, above = codec.encode("x" * 997, place=at()), codec.encode("x" * 998, place=at())

    assert (len(below), below[:1]) == (1_000, b"j")
    name = hashlib.sha256(b'j"' + b"x" * 998 + b'"').hexdigest()
    assert above == b"r" + name.encode() + b":1001"
    assert visible(folder) == [name]
    assert codec.encode("x" * 998, place=at("run-2")) == above


def test_a_lost_or_exchanged_blob_is_a_typed_error_that_names_the_place(blobs: FolderBlobs, folder: Path) -> None:
    codec = Offloaded(JsonCodec(), blobs, above=1_000)
    one, other = codec.encode("x" * 2_000, place=at()), codec.encode("y" * 2_000, place=at())
    (folder / other[1:65].decode()).rename(folder / one[1:65].decode())

    with pytest.raises(CorruptRecordError, match="another content") as caught:
        codec.decode(one, str, place=at())
    assert caught.value.title == "the result of `payment/charge` cannot be read back: its blob is lost"
    with pytest.raises(CorruptRecordError, match="there is no blob"):
        codec.decode(other, str, place=at())


def test_a_reference_with_a_wrong_size_is_refused(blobs: FolderBlobs) -> None:
    codec = Offloaded(JsonCodec(), blobs, above=1_000)
    reference = codec.encode("x" * 2_000, place=at())

    with pytest.raises(CorruptRecordError, match="the blob has 2003"):
        codec.decode(reference[:65] + b":1", str, place=at())


def test_a_disk_that_does_not_answer_is_the_stores_trouble(
    blobs: FolderBlobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = Offloaded(JsonCodec(), blobs, above=1_000)
    reference = codec.encode("x" * 2_000, place=at())

    def fail(code: int) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            raise OSError(code, os.strerror(code))

        return call

    for code, kind in [(errno.ENOSPC, StoreFullError), (errno.EIO, StoreUnavailableError)]:
        monkeypatch.setattr(os, "open", fail(code))
        with pytest.raises(kind):
            codec.encode("x" * 2_000, place=at())
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        codec.decode(reference, str, place=at())


def test_a_limit_below_the_size_of_a_reference_is_refused(blobs: FolderBlobs) -> None:
    with pytest.raises(InvalidOptionError):
        Offloaded(JsonCodec(), blobs, above=99)
