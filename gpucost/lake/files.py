"""Where a lake lies: a local folder, S3, Google Cloud Storage or Azure Blob, through pyarrow's file systems."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpucost.errors import StoreError, UsageError

if TYPE_CHECKING:
    from gpucost.config.model import Config

_SCHEMES = {"s3": "S3", "gs": "Google Cloud Storage", "abfss": "Azure Blob Storage", "abfs": "Azure Blob Storage"}
_ADDRESSES = "/path/to/lake, s3://bucket/lake, gs://bucket/lake or abfss://container@account.dfs.core.windows.net/lake"
_LOGINS = {
    "s3": "aws sso login, or set AWS_PROFILE; [aws] endpoint_url names another server",
    "gs": "gcloud auth application-default login; [gcp] storage_endpoint names another server",
    "abfss": "az login, or set AZURE_STORAGE_CONNECTION_STRING",
}
# An object that another process is writing may show up empty for a moment.
_TRIES, _PAUSE_SECONDS = 5, 0.2
_CHUNK = 8 * 2**20


@dataclass(frozen=True, slots=True)
class LakeFiles:
    """The files below a lake's address, by their paths relative to it. Every error is a StoreError that names the file."""

    url: str
    _fs: Any
    _root: str
    _scheme: str

    @property
    def is_local(self) -> bool:
        """Whether the lake is a folder of this machine."""
        return not self._scheme

    def names(self, below: str = "") -> list[str]:
        """The files below a folder, sorted; none where it is not there."""
        return sorted(self.entries(below))

    def entries(self, below: str = "") -> dict[str, tuple[int, float]]:
        """The files below a folder: their sizes, and when they were written, in seconds since 1970."""
        from pyarrow.fs import FileSelector, FileType

        with self._in_words(below):
            entries = self._fs.get_file_info(FileSelector(self._place(below), allow_not_found=True, recursive=True))
        cut = len(self._root) + 1
        return {
            entry.path[cut:]: (entry.size, entry.mtime_ns / 1e9)
            for entry in entries
            if entry.type == FileType.File and not entry.base_name.startswith(".tmp-")
        }

    def read(self, name: str) -> bytes | None:
        """What a small file holds; None where it is not there."""
        for _ in range(_TRIES):
            try:
                with self._in_words(name), self._fs.open_input_stream(self._place(name)) as stream:
                    content = bytes(stream.read())
            except FileNotFoundError:
                return None
            if content:
                return content
            time.sleep(_PAUSE_SECONDS)
        raise StoreError(f"{self.shown(name)} is empty", "gpucost lake export writes it anew")

    def write(self, name: str, content: bytes) -> None:
        """Write a small file: others see what it held before, or all of this."""
        place = self._place(name)
        with self._in_words(name):
            if self.is_local:
                _write_local(Path(place), content)
            else:
                with self._fs.open_output_stream(place) as stream:
                    stream.write(content)

    def put(self, name: str, source: Path) -> None:
        """Move a local file into the lake: it is there whole, or not at all."""
        place = self._place(name)
        with self._in_words(name):
            if self.is_local:
                _move_local(source, Path(place))
                return
            with source.open("rb") as content, self._fs.open_output_stream(place) as stream:
                while chunk := content.read(_CHUNK):
                    stream.write(chunk)
        source.unlink()

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            with self._in_words(name):
                self._fs.delete_file(self._place(name))
        except FileNotFoundError:
            return

    def local(self, name: str, folder: Path, size: int, sha256: str) -> Path:
        """A file of the lake on this machine, fetched into `folder` where it lies elsewhere.

        Raises StoreError where it is missing, or is not what the manifest says.
        """
        writes = "attribute" if name.startswith("attributed/") else "export --all"
        gone = StoreError(
            f"{self.shown(name)} is missing, or is not what its manifest says", f"gpucost lake {writes} writes it anew"
        )
        if self.is_local:
            path = Path(self._place(name))
            if not path.is_file() or path.stat().st_size != size:
                raise gone
            return path
        path = folder / hashlib.sha256(name.encode()).hexdigest()[:32]
        if path.exists():
            return path
        part, digest = path.with_name(f"{path.name}.{os.getpid()}.part"), hashlib.sha256()
        try:
            with self._in_words(name), self._fs.open_input_stream(self._place(name)) as stream, part.open("wb") as file:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
        except FileNotFoundError:
            raise gone from None
        if digest.hexdigest() != sha256:
            part.unlink()
            raise gone
        part.replace(path)
        return path

    def shown(self, name: str = "") -> str:
        """A file's address, for people."""
        return f"{self.url.rstrip('/')}/{name}".rstrip("/")

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    def _in_words(self, name: str) -> _InWords:
        return _InWords(self.shown(name), _LOGINS.get(self._scheme, "make the folder writable, or name another lake"))


@dataclass(frozen=True, slots=True)
class _InWords:
    """Turns what file systems raise into StoreError; that a file is not there goes through."""

    what: str
    fix: str

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            words = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise StoreError(f"cannot reach {self.what}: {words[:300]}", self.fix) from error


def open_files(url: str, config: Config) -> LakeFiles:
    """The files of the lake at `url`; nothing is read yet. Raises UsageError for an address that is none."""
    try:
        from pyarrow import ArrowInvalid, fs
    except ImportError:
        raise UsageError("a lake needs pyarrow", "pip install 'gpucost[lake]'") from None
    parts = urlsplit(url)
    shown = parts._replace(query="", netloc=parts.netloc.rpartition("@")[2] if ":" in parts.netloc else parts.netloc).geturl()
    if "://" not in url or parts.scheme == "file":
        path = Path(parts.path if parts.scheme == "file" else url).expanduser().resolve()
        if path.exists() and not path.is_dir():
            raise UsageError(f"the lake {url} is a file, not a folder", f"a lake's address is {_ADDRESSES}")
        return LakeFiles(str(path), fs.LocalFileSystem(), str(path), "")
    if parts.scheme not in _SCHEMES or not parts.netloc:
        raise UsageError(f"{shown} is no lake's address", f"a lake's address is {_ADDRESSES}")
    try:
        if parts.query:
            system, root = fs.FileSystem.from_uri(url)
        else:
            system, root = _system(parts.scheme, parts.netloc, config), _root(parts.scheme, parts.netloc, parts.path)
    except (ArrowInvalid, ValueError, OSError) as error:
        words = str(error).splitlines()[0]
        raise UsageError(f"{shown} cannot be used: {words}", f"a lake's address is {_ADDRESSES}") from None
    scheme = "abfss" if parts.scheme.startswith("abfs") else parts.scheme
    return LakeFiles(shown.rstrip("/"), system, root.rstrip("/"), scheme)


def _root(scheme: str, netloc: str, path: str) -> str:
    bucket = netloc.partition("@")[0] if scheme.startswith("abfs") else netloc
    return f"{bucket}{path}"


def _system(scheme: str, netloc: str, config: Config) -> Any:
    """The file system of a scheme, with the credentials that its cloud's usual chain finds."""
    from pyarrow import fs

    if scheme == "s3":
        retries = fs.AwsStandardS3RetryStrategy(max_attempts=4)
        endpoint = config.aws.endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return fs.S3FileSystem(endpoint_override=endpoint, region=region, retry_strategy=retries, connect_timeout=10)
    if scheme == "gs":
        endpoint = config.gcp.storage_endpoint
        if not endpoint:
            return fs.GcsFileSystem()
        parts = urlsplit(endpoint)
        return fs.GcsFileSystem(anonymous=parts.scheme == "http", scheme=parts.scheme, endpoint_override=parts.netloc)
    account = netloc.partition("@")[2].partition(".")[0]
    named = dict(
        part.split("=", 1) for part in os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";") if "=" in part
    )
    if named.get("AccountName") != account:
        return fs.AzureFileSystem(account)
    blobs = urlsplit(named.get("BlobEndpoint", ""))
    other: dict[str, str] = {}
    if blobs.netloc:
        other = {"blob_storage_authority": blobs.netloc, "blob_storage_scheme": blobs.scheme,
                 "dfs_storage_authority": blobs.netloc, "dfs_storage_scheme": blobs.scheme}  # fmt: skip
    return fs.AzureFileSystem(account, account_key=named.get("AccountKey"), **other)


def _write_local(place: Path, content: bytes) -> None:
    part = place.with_name(f".tmp-{os.getpid()}-{place.name}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(place)
    _sync(place.parent)


def _move_local(source: Path, place: Path) -> None:
    """A rename, behind a copy where the two lie on different disks."""
    import shutil

    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".tmp-{os.getpid()}-{place.name}")
    shutil.move(source, part)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(place)
    _sync(place.parent)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def checksum(path: Path) -> str:
    """The SHA-256 of a local file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
