"""Objects in S3, Google Cloud Storage and Azure Blob Storage, for bills and lakes.

All three go through obstore. An upload becomes visible as a whole or not at all, and so does a replacement.
The logins come from each cloud's own tools: profiles and SSO of AWS, application default credentials of
Google, `az login` of Azure.

obstore does not support keys with an empty part (`a//b`), a part `.` or `..`, or a control character: a
folder that contains such a key cannot be listed, and the error names the key.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl, unquote

from gpucost import clouds
from gpucost.errors import ConfigError, GpucostError, SourceError, StoreError, UsageError
from gpucost.records import frozen_dataclass
from gpucost.texts import conceal, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpucost.config.model import Aws, Config

CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
ADDRESSES = (
    "s3://bucket/folder, gs://bucket/folder, abfss://container@account.dfs.core.windows.net/folder"
    " or https://account.blob.core.windows.net/container/folder"
)
# Options after a question mark that describe the server; in Azure addresses it is a SAS token.
_OPTIONS = ("endpoint_override", "scheme", "region")
_AGAIN = "run the command again"
_CHUNK = 8 * 2**20
# An answer may pause for two minutes; a transfer ends after two hours at the latest.
_TIMEOUTS = {"connect_timeout": "10s", "read_timeout": "120s", "timeout": "2h"}
_RETRIES: Any = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(seconds=0.5), "max_backoff": timedelta(seconds=5), "base": 2},
}
# boto3 renews credentials ten minutes before they expire.
_LOGIN_LASTS = timedelta(minutes=10)

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)")
_MESSAGE = re.compile(r"<Message>([^<\n]+)")
_KEY = re.compile('Path "(.*?)"', re.DOTALL)
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')
# Error codes of S3, Cloud Storage and Blob Storage for invalid or expired credentials.
_REFUSED = """
    AuthFailure AuthenticationFailed AuthenticationRequired ExpiredToken IncompleteSignature InvalidAccessKeyId
    InvalidAuthenticationInfo InvalidSecurity InvalidToken NoAuthenticationInformation RequestExpired RequestTimeTooSkewed
    SignatureDoesNotMatch TokenRefreshRequired"""


Made = TypeVar("Made")
_Login = tuple[str | None, Any, Any]


class _Cloud(NamedTuple):
    """`login` is the command that logs in; `needs` are the permissions; `words` translates login errors."""

    name: str
    scheme: str
    login: str
    needs: str
    words: Callable[[str], Any]


_AWS_NEEDS = (
    "allow s3:ListBucket and s3:GetObject on the bucket; a lake also needs s3:PutObject and s3:DeleteObject"
)
_AWS = _Cloud(
    "aws",
    "s3",
    clouds.AWS_LOGIN,
    _AWS_NEEDS,
    partial(clouds.aws_in_words, again=_AGAIN, permissions=_AWS_NEEDS),
)
_GCP_NEEDS = "grant roles/storage.objectViewer on the bucket; a lake needs roles/storage.objectUser"
_GCP = _Cloud(
    "gcp",
    "gs",
    clouds.GOOGLE_LOGIN,
    _GCP_NEEDS,
    partial(clouds.google_in_words, again=_AGAIN, forbidden=("", _GCP_NEEDS)),
)
_AZURE_NEEDS = "grant Storage Blob Data Reader on the container; a lake needs Storage Blob Data Contributor"
_AZURE = _Cloud("azure", "az", clouds.AZURE_LOGIN, _AZURE_NEEDS, clouds.azure_in_words)


@frozen_dataclass
class Entry:
    """A file of a bucket or folder; its key is a path with slashes, its time in seconds since 1970.

    `tag` changes with the content; None if it is unknown before the file is read.
    """

    key: str
    size: int
    tag: str | None = None
    written: float = field(default=0.0, compare=False)


@dataclass
class Bucket:
    """A bucket or container.

    Keys are complete paths; errors are GpucostErrors that name the object, or FileNotFoundError. `create` is
    the command that creates the bucket. `log_in` returns the endpoint (None: the cloud's default), more
    obstore options, and its credential provider (None: the options hold the credentials).
    """

    cloud: _Cloud
    name: str
    url: str
    create: str
    log_in: Callable[[], _Login]

    def label(self, key: str) -> str:
        """The address of an object, for people."""
        return f"{self.url}/{key}"

    def found(self, folder: str) -> list[Entry]:
        """The objects below a folder, sorted by key, without empty ones (tools mark folders with them)."""
        metas = self._run(folder, lambda store: store.list(folder or None, chunk_size=1000).collect())
        return sorted((self._entry(meta) for meta in metas if meta["size"]), key=attrgetter("key"))

    def head(self, key: str) -> Entry:
        """One object."""
        return self._entry(self._run(key, lambda store: store.head(key)))

    def read(self, key: str) -> bytes:
        """The content of a small object."""
        return self._run(key, lambda store: bytes(store.get(key).bytes()))

    def fetch(self, key: str, target: Path) -> Entry:
        """Write the content of an object to a local file."""

        def fetched(store: Any) -> tuple[Entry, int]:
            answer = store.get(key)
            with target.open("wb") as out:
                return self._entry(answer.meta), sum(out.write(chunk) for chunk in answer.stream(_CHUNK))

        found, size = self._run(key, fetched)
        if size != found.size:
            raise SourceError(f"{self.label(key)} broke off after {size:,} of {found.size:,} bytes", _AGAIN)
        return found

    def put(self, key: str, source: Any) -> None:
        """Write or replace an object from bytes, a path or an open file."""
        self._run(key, lambda store: store.put(key, source, max_concurrency=2))

    def delete(self, key: str) -> None:
        """Remove an object. Not every cloud raises FileNotFoundError if it is missing."""
        self._run(key, lambda store: store.delete(key))

    def _entry(self, meta: Any) -> Entry:
        key, tag = meta["path"], (meta["e_tag"] or str(meta["last_modified"])).strip('"')
        # Stores of earlier versions identify Cloud Storage objects by MD5 in base64, as in its JSON API, and
        # S3 objects without the key.
        if self.cloud is _GCP and re.fullmatch("[0-9a-f]{32}", tag):
            tag = b64encode(bytes.fromhex(tag)).decode()
        return Entry(
            key,
            meta["size"],
            tag if self.cloud is _AWS else f"{key}:{tag}",
            meta["last_modified"].timestamp(),
        )

    @cached_property
    def _store(self) -> Any:
        from obstore.store import from_url

        endpoint, options, login = self.log_in()
        if login is not None:
            login()
        if endpoint:
            options["base_url" if self.cloud is _GCP else "endpoint"] = endpoint
        allow_http = (endpoint or "").startswith("http://")
        client: Any = _TIMEOUTS | {"allow_http": allow_http, "root_certificate": _roots()}
        return from_url(
            f"{self.cloud.scheme}://{self.name}",
            config=options,
            client_options=client,
            retry_config=_RETRIES,
            credential_provider=login,
        )

    def _run(self, key: str, work: Callable[[Any], Made]) -> Made:
        """The result of `work`, with errors of the store and the login as GpucostErrors.

        FileNotFoundError is passed on. `work` runs in a thread of its own: obstore blocks signals, and Ctrl-C
        must end the wait.
        """
        what, made = self.label(key), Future[Any]()
        clouds.require(self.cloud.name, "obstore")
        from obstore.exceptions import BaseError

        def run() -> None:
            try:
                made.set_result(work(store))
            except BaseException as error:
                made.set_exception(error)

        with self.cloud.words(what):
            store = self._store
            Thread(target=run, daemon=True).start()
            try:
                return cast("Made", made.result())
            except (BaseError, OSError, ValueError) as error:
                raise self._failure(what, error) from None

    def _failure(self, what: str, error: Exception) -> Exception:
        """The error for people; obstore's own text includes the server's answer."""
        text = str(error)
        status, code, message, key = (
            found[1] if (found := part.search(text)) else "" for part in (_STATUS, _CODE, _MESSAGE, _KEY)
        )
        answer = f"{code} {message}".strip() or (status and f"HTTP {status}") or text.partition("\n")[0]
        words, fix = excerpt(answer), _AGAIN
        if code in ("NoSuchBucket", "ContainerNotFound"):
            return self.missing()
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(what)
        is_refused = code in _REFUSED.split() or status == "401"
        if is_refused or "failed to authenticate" in message or "credential provider" in text:
            words, fix = f"the credentials are refused or have expired: {words}", self.cloud.login
        elif status == "403":
            words, fix = f"not allowed: {words}", self.cloud.needs
        elif status in ("429", "503"):
            words, fix = f"throttled repeatedly: {words}", f"wait a while, then {_AGAIN}"
        elif key:
            words = f"a key with an empty part, a part . or .., or a control character cannot be read: {excerpt(key)}"
            fix = "copy the files to a folder without such keys"
        elif isinstance(error, OSError):
            words, fix = error.strerror or text, "free space on the disk, or name another one with TMPDIR"
        elif not status:
            causes = _CAUSE.findall(text)
            words = f"the connection failed: {excerpt(causes[-1]) if causes else words}"
            fix = f"check the network and the endpoint, then {_AGAIN}"
        return SourceError(f"{what}: {words}", fix)

    def missing(self) -> GpucostError:
        """The error for a missing bucket."""
        return StoreError(f"bucket {self.url} not found", f"check the name, or create it: {self.create}")


def _refuse_plain(endpoint: str | None) -> None:
    """Raise UsageError for a remote endpoint that would receive a login without TLS."""
    if (endpoint or "").startswith("http://") and not clouds.is_loopback(endpoint):
        raise UsageError(f"{endpoint} would get your login without encryption", "use https://")


def _roots() -> bytes:
    """The certificates that the clouds' own libraries trust, to add to the system's.

    Raises ConfigError.
    """
    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    name = next((name for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE") if os.environ.get(name)), "")
    try:
        return Path(os.environ.get(name) or DEFAULT_CA_BUNDLE_PATH).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the certificates that {name} names: {error.strerror}", "name a file in PEM format"
        ) from None


def _s3(name: str, settings: Aws, region: str | None) -> Bucket:
    def log_in() -> _Login:
        session = clouds.aws_login(settings)
        from botocore.exceptions import ClientError
        from obstore.auth.boto3 import Boto3CredentialProvider

        # boto3 knows endpoints and finds a bucket's region; obstore does neither
        client = clouds.aws_client(session, settings, "s3", region or session.region_name or "us-east-1", 4)
        try:
            answer = client.head_bucket(Bucket=name)["ResponseMetadata"]
        except ClientError as error:
            answer = error.response["ResponseMetadata"]
            if answer["HTTPStatusCode"] == 404:
                raise bucket.missing() from None
        place = region or answer["HTTPHeaders"].get("x-amz-bucket-region") or client.meta.region_name
        endpoint = clouds.aws_client(session, settings, "s3", place).meta.endpoint_url
        return endpoint, {"region": place}, Boto3CredentialProvider(session, ttl=_LOGIN_LASTS)

    bucket = Bucket(_AWS, name, f"s3://{name}", f"aws s3 mb s3://{name}", log_in)
    return bucket


def _gcs(name: str, endpoint: str | None) -> Bucket:
    def log_in() -> _Login:
        _refuse_plain(endpoint)
        who, _ = clouds.google_login(endpoint, None)
        from obstore.auth.google import GoogleCredentialProvider

        anonymous = {"token": "none", "expires_at": None}
        is_emulator = clouds.is_loopback(endpoint)
        return endpoint, {}, (lambda: anonymous) if is_emulator else GoogleCredentialProvider(who)

    return Bucket(_GCP, name, f"gs://{name}", f"gcloud storage buckets create gs://{name}", log_in)


def _azure(url: str, endpoint: str, account: str, name: str, sas: str) -> Bucket:
    """Credentials: the SAS token, then AZURE_STORAGE_CONNECTION_STRING, then azure-identity.

    The connection string is used only if it is for this account.
    """

    def log_in() -> _Login:
        options = {"account_name": account}
        existing = dict(
            part.split("=", 1) for part in os.environ.get(CONNECTION, "").split(";") if "=" in part
        )
        if sas:
            for secret in (sas, *sas.split("&")):
                conceal(secret)
            return endpoint, options | {"sas_key": sas}, None
        if existing.get("AccountName") == account:
            domain = f"{account}.blob.{existing.get('EndpointSuffix', 'core.windows.net')}"
            protocol = existing.get("DefaultEndpointsProtocol", "https")
            for name, option in (("AccountKey", "account_key"), ("SharedAccessSignature", "sas_key")):
                if name in existing:
                    options[option] = existing[name]
            return existing.get("BlobEndpoint") or f"{protocol}://{domain}", options, None
        from obstore.auth.azure import AzureCredentialProvider

        _refuse_plain(endpoint)
        who: Any = clouds.azure_login()
        return endpoint, options, AzureCredentialProvider(who)

    return Bucket(
        _AZURE, name, url, f"az storage container create --name {name} --account-name {account}", log_in
    )


def open_address(url: str, config: Config) -> tuple[Bucket, str]:
    """The bucket in an address, and the key or folder in it, without a request.

    Raises UsageError.
    """
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    server, _, path = place.partition("/")
    login, at, host = server.rpartition("@")
    path = path.strip("/")
    is_abfs = scheme in ("abfss", "abfs")
    if ":" in login or (at and not is_abfs):
        raise UsageError(
            f"the address {scheme}://{host}/{path} contains a login",
            "leave it out: log in with your cloud's own tools",
        )
    root = f"{scheme}://{server}"
    if not host or (is_abfs and not login) or scheme not in ("s3", "gs", "abfss", "abfs", "https", "http"):
        raise UsageError(f"{root}/{path} is not the address of a bucket", ADDRESSES)
    if is_abfs:
        account, _, domain = host.partition(".")
        endpoint = f"https://{account}.{domain.replace('dfs.', 'blob.', 1) or 'blob.core.windows.net'}"
        return _azure(root, endpoint, account, login, query), path
    if scheme in ("https", "http"):
        parts = [unquote(part) for part in path.split("/") if part]
        # emulators have the account in the path: http://127.0.0.1:10000/devstoreaccount1/container/folder
        above = [] if ".blob." in host else parts[:1]
        container, *folders = parts[len(above) :] or [""]
        if not container:
            raise UsageError(f"{root}/{path} names no container", ADDRESSES)
        endpoint, account = "/".join([root, *above]), (above or host.split("."))[0]
        return _azure(f"{endpoint}/{container}", endpoint, account, container, query), "/".join(folders)
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise UsageError(
            f"the address {root} has an unknown option {unknown[0]}", f"the options are {', '.join(_OPTIONS)}"
        )
    named = options.get("endpoint_override", "")
    if named and "://" not in named:
        named = f"{options.get('scheme', 'https')}://{named}"
    if scheme == "gs":
        return _gcs(host, named or config.gcp.storage_endpoint), path
    settings = config.aws.model_copy(update={"endpoint_url": named}) if named else config.aws
    return _s3(host, settings, options.get("region")), path
