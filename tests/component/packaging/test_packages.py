"""Each deployed package, built for this machine's processor, runs without other libraries."""

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.packaging.build import Built, build
from infra.packaging.contents import Contents, all_contents, contents_of, library_contents, package_handlers

HANDLERS = package_handlers()
# The packages that are built for each change: of the authorizer, a function of the chain, and one with boto3.
FEW = {"access_tokens", "key_revocation", "preference_checker"}
HERE = f"{platform.machine()}-manylinux_2_28"
# Compression takes half of the processor time of a build, and no test reads the sizes.
STORED = 0

# A script that can import only the standard library and the package's own folder.
IMPORT_ALONE = """
import importlib, sys
folder, module = sys.argv[1:]
compiled = set()
sys.addaudithook(lambda name, values: name == "compile" and compiled.add(str(values[1])))
sys.path[:] = [folder] + [path for path in sys.path if path and "site-packages" not in path]
handler = importlib.import_module(module)
assert callable(handler.handler)
outside = {
    name: each.__file__
    for name, each in sys.modules.items()
    if getattr(each, "__file__", None) and not each.__file__.startswith((folder, sys.base_prefix))
}
assert not outside, outside
# The package brings its modules compiled; what has no file is a dataclass's or a tuple's own.
assert not {each for each in compiled if each.startswith(folder)}, compiled
"""


@pytest.fixture(scope="module")
def packages(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Build FEW packages; with --nightly, all."""
    folder = tmp_path_factory.mktemp("packages")
    is_all = pytestconfig.getoption("--nightly")
    contents = [each for each in (*all_contents(), *library_contents()) if is_all or each.name in FEW]
    return {each.name: each for each in build(contents, folder, platform=HERE, level=STORED)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FEW else pytest.mark.nightly) for name in sorted(HANDLERS)]
)
def test_a_handler_is_imported_from_its_package_alone(name: str, packages: dict[str, Built], tmp_path: Path) -> None:
    with zipfile.ZipFile(packages[name].path) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALONE, str(tmp_path), HANDLERS[name]],
        # With SnapStart the modules of the first invocation are imported at init.
        env={"PATH": os.environ["PATH"], "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_access_tokens_are_read_from_their_package_alone(packages: dict[str, Built], tmp_path: Path) -> None:
    """The library of the API's authorizer verifies signatures with the modules of its package."""
    with zipfile.ZipFile(packages["access_tokens"].path) as archive:
        archive.extractall(tmp_path)
    code = """import json, sys
sys.path[:] = [sys.argv[1]] + [path for path in sys.path if path and "site-packages" not in path]
from masscomm.clock import FixedClock
from masscomm.http.access_tokens import AccessTokens, InvalidToken, Issuer, SigningKeys
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
key, clock = ec.generate_private_key(ec.SECP256R1()), FixedClock()
public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())) | {"kid": "k"}
issuer = Issuer(issuer="https://i.example", audience="a", keys_url="https://i.example/keys")
keys = SigningKeys(url="", clock=clock, fetch=lambda _: json.dumps({"keys": [public]}).encode())
now = clock.now_ms() // 1000
claims = {"iss": issuer.issuer, "aud": "a", "sub": "s", "iat": now, "exp": now + 60, "clubs": [1], "roles": ["viewer"]}
token = jwt.encode(claims, key, "ES256", headers={"kid": "k"})
print(AccessTokens(issuer=issuer, keys=keys, clock=clock).context(token)["principalId"])"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("person:s\n", "")


def test_package_brings_time_zones_for_machines_without(packages: dict[str, Built], tmp_path: Path) -> None:
    with zipfile.ZipFile(packages["preference_checker"].path) as archive:
        archive.extractall(tmp_path)
    code = """import sys, zoneinfo
sys.path.insert(0, sys.argv[1])
zoneinfo.reset_tzpath(to=())
zoneinfo.ZoneInfo("Asia/Kolkata")"""
    for path, status in ((tmp_path, 0), (tmp_path / "none", 1)):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, str(path)],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == status, done.stderr


# The libraries that a package has in addition, and the services whose models it has.
_OPERATIONS = ("operations_handler", "key_revocation")  # They have one handler.
SDKS = {key: {"boto3", "s3transfer"} for key in (*_OPERATIONS, "scheduler")}
MODELS = {key: {"cloudwatch"} for key in _OPERATIONS}


def test_packages_lack_libraries_and_models_that_they_do_not_use(packages: dict[str, Built]) -> None:
    for built in packages.values():
        with zipfile.ZipFile(built.path) as archive:
            names = archive.namelist()
        tops = {name.partition("/")[0] for name in names}
        sdks = {"boto3", "s3transfer", "opensearchpy", "aiohttp", "requests"}
        assert tops & sdks == SDKS.get(built.name, set()), built.name
        models = {name.split("/")[2] for name in names if name.startswith("botocore/data/") and name.count("/") > 2}
        assert models == MODELS.get(built.name, set()), built.name
        assert not [name for name in names if name.startswith("boto3/data/")], built.name


def test_package_has_the_source_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "my-source.yaml"
    own.write_text("tables: {}")
    monkeypatch.setenv("MASSCOMM_SOURCE", str(own))
    (tokens,) = (each for each in library_contents() if each.name == "access_tokens")
    (built,) = build([tokens], tmp_path, platform=HERE, level=STORED)
    with zipfile.ZipFile(built.path) as archive:
        assert archive.read("schemas/source.yaml") == b"tables: {}"


@pytest.mark.nightly
def test_the_same_input_gives_the_same_bytes(packages: dict[str, Built], tmp_path: Path) -> None:
    some: list[Contents] = [contents_of(name, HANDLERS[name]) for name in ("send_handler", "metrics_handler")]
    again = build(some, tmp_path, platform=HERE, level=STORED)
    assert [each.path.read_bytes() for each in again] == [packages[each.name].path.read_bytes() for each in again]
