"""`python -m tests.support.cdk.synthesise FOLDER`: synthesises the environments that the tests read, in one process.

small and prod are made from the bare sources, as in a clean clone. `local` has other options: external servers, empty
packages in the layout of `make package`, its own domain name. `replacing` is prod with two snapshot generations, and
with other settings of resources that are replaced, with directory_state, with the job of the organisation's own topics,
and with the rules of an organisation for its resources.
"""

import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

from functions.catalogue import read_catalogue
from infra.cdk.config import (
    LOCAL,
    ApiConfig,
    DirectoryStateConfig,
    ExternalServers,
    MailboxConfig,
    PlatformConfig,
    local,
)
from infra.cdk.examples import ENVIRONMENTS, PROD
from masscomm.domain.source_tables import source_file

SYNTHESISED = ("small", "prod")
# While one generation replaces another, topics, mappings and alarms are at their maximum. CloudFormation replaces
# resources for the other differences.
MAILBOX = MailboxConfig(address="unsubscribe@mail.masscomm.example", rule_set="inbound")
PLATFORM = PlatformConfig(
    tags={"cost-centre": "4711"},
    permissions_boundary="arn:aws:iam::000000000000:policy/acme/boundary",
    role_path="/acme/",
    bootstrap_qualifier="acme",
)
REPLACING = replace(
    PROD,
    name="replacing",
    generation="g1,g2",
    kafka=replace(PROD.kafka, version="4.0.x.kraft"),
    alarm_email="others@masscomm.example",
    unsubscribe_mailbox=MAILBOX,
    directory_state=DirectoryStateConfig(answers=True),
    send_results=False,
    event_sources="examples/event_sources.yaml",
    spark=replace(PROD.spark, archive=2),
    platform=PLATFORM,
)
DOMAIN = "api.masscomm.example"
CERTIFICATE = "arn:aws:acm:us-east-1:000000000000:certificate/00000000-0000-0000-0000-000000000000"
SERVERS = ExternalServers(
    kafka="127.0.0.1:9092,127.0.0.1:9094",
    registry_url="http://127.0.0.1:8081/apis/ccompat/v7",
    directory_url="http://127.0.0.1:9200",
    database_url="postgresql://masscomm@127.0.0.1:15432/metrics?passfile=%2Fpgpass",
)


def main(folder: Path) -> None:
    # The CDK's own validation only prints warnings, and takes half of the time; cfn-lint checks the same templates
    # (test_linted_templates.py).
    os.environ["CDK_VALIDATION"] = "false"
    # Imported here, because this import takes seconds and starts Node; other modules need only the names above.
    from infra.cdk.app import build

    os.environ["MASSCOMM_PACKAGES"] = str(folder / "no-packages")
    for name in SYNTHESISED:
        build(ENVIRONMENTS[name], outdir=str(folder / name)).synth()
    build(REPLACING, outdir=str(folder / REPLACING.name)).synth()
    packages = folder / "packages"
    packages.mkdir()
    for package in {entry.package for entry in read_catalogue(generation="any")}:
        with zipfile.ZipFile(packages / f"{package}.zip", "w") as archive:
            archive.writestr(zipfile.ZipInfo("package.txt"), package)
            archive.writestr(zipfile.ZipInfo("schemas/source.yaml"), source_file().read_bytes())
    os.environ |= {"MASSCOMM_PACKAGES": str(packages), "MASSCOMM_REQUIRE_PACKAGES": "1"}
    api = ApiConfig(domain=DOMAIN, certificate_arn=CERTIFICATE)
    build(replace(local(SERVERS), api=api), outdir=str(folder / LOCAL)).synth()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
