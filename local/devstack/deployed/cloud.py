"""A local AWS account: LocalStack with our servers, and the CDK command line to deploy to it."""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from botocore.config import Config

from local.devstack.config import GENERATION, ROOT, StackConfig
from local.devstack.deployed.mappings import Pollers
from local.devstack.provision import provisioning
from local.devstack.service import base_environment, local_client
from local.devstack.services import all_services
from local.devstack.services.localstack import deployable_service
from local.devstack.stack import Stack
from local.emulators.local import ACCOUNT, REGION
from masscomm.http.scopes import ALL_SCOPES, scopes_text
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import ApiKey, digest_of, new_key

CDK = ROOT / "infra" / "cdk"
ENVIRONMENT = "local"
PREFIX = f"masscomm-{ENVIRONMENT}"
# The servers that run in addition to LocalStack, in place of AWS' MSK, MSK Connect, OpenSearch, RDS, Fargate and SES.
SERVERS = ("kafka", "registry", "postgres", "opensearch", "connect", "sms")
# The provisioning tasks of the local stack that are omitted, because the deployment or `infra.provision` does their
# work.
MADE = ("aws", "endpoints", "schemas", "indices", "tables")
# The name that uv has for this machine's platform, on which the functions run as processes.
HERE = f"{platform.machine()}-manylinux_2_28"


class DeploymentError(Exception):
    """A step of the deployment failed; the message is the end of the output of its program."""


class Cloud:
    """A local AWS account. Every method that changes it may raise DeploymentError and StackError.

    Args:
        config: The ports and the state folder.
        servers: The servers to run in addition to LocalStack. Without any, our stacks cannot be deployed, and no
            package is built.
    """

    def __init__(self, config: StackConfig, *, servers: tuple[str, ...] = SERVERS) -> None:
        self.config = config
        self.packages = config.state_dir / "packages"
        self.assembly = config.state_dir / "cdk" / ENVIRONMENT
        self._runtime = config.state_dir / "lambda-runtime"
        self._log = config.log("deployment")
        self._servers_stand = bool(servers)
        known = {name: each for name, each in all_services(config).items() if name in servers}
        known["localstack"] = deployable_service(config, runtime=self._runtime)
        tasks = [each for each in provisioning(config) if each.name not in MADE and servers]
        self.stack = Stack(config, catalogue=lambda _: known, tasks=lambda _: tasks)

    def __enter__(self) -> Self:
        """Build the packages and start the servers."""
        self.config.log("deployment").parent.mkdir(parents=True, exist_ok=True)
        self.package()
        self.stack.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.stop()

    def client(self, service: str, config: Config | None = None) -> Any:
        """Return a boto3 client of the account."""
        return local_client(self.config.aws_url, service, config=config)

    def pollers(self) -> Pollers:
        """Return pollers that invoke the deployed functions with the records of their event source mappings."""
        return Pollers(
            bootstrap_servers=self.config.kafka_bootstrap, client=lambda config: self.client("lambda", config)
        )

    @property
    def api_url(self) -> str:
        """Return the address of the deployed REST API, its stage included."""
        (api,) = (each for each in self.client("apigateway").get_rest_apis()["items"] if each["name"] == PREFIX)
        (stage,) = self.client("apigateway").get_stages(restApiId=api["id"])["item"]
        return f"{self.config.aws_url}/_aws/execute-api/{api['id']}/{stage['stageName']}"

    # --- steps of an operator ---

    def prepare(self) -> None:
        """Create what the first deployment requires (docs/deploying.md): SNS applications. Each sender of e-mails is
        verified at the stand-in for SES.
        """
        sns = self.client("sns")
        for kind in ("GCM", "APNS"):
            sns.create_platform_application(
                Name=f"{PREFIX}-{kind.lower()}",
                Platform=kind,
                Attributes={"PlatformCredential": "local", "PlatformPrincipal": "local"},
            )

    def let_in(self, *clubs: str) -> list[str]:
        """Create an API key with every scope for each customer.

        Args:
            clubs: The clubs of each key.

        Returns:
            The keys.
        """
        gateway, keys = self.client("apigateway"), [new_key() for _ in clubs]
        table, scopes = ApiKeys(self.client("dynamodb"), f"{PREFIX}-api_keys"), scopes_text(ALL_SCOPES)
        (plan,) = (each for each in gateway.get_usage_plans()["items"] if each["name"] == PREFIX)
        for key, allowed in zip(keys, clubs, strict=True):
            digest, now_s = digest_of(key), int(time.time())
            table.put(ApiKey(digest=digest, name="trial", clubs=allowed, scopes=scopes, created_at=now_s))
            made = gateway.create_api_key(name=f"{PREFIX}-{digest[:6]}", value=digest, enabled=True)
            gateway.create_usage_plan_key(usagePlanId=plan["id"], keyId=made["id"], keyType="API_KEY")
        return keys

    # --- steps of a deployment ---

    def package(self, tree: Path = ROOT) -> None:
        """Build the package of every function for this machine's processor, and the files of Lambda's runtime.

        Args:
            tree: The checkout with the code, such as that of an earlier version.
        """
        module = [sys.executable, "-m", "infra.packaging", "--platform", HERE, "--runtime", str(self._runtime)]
        self._run([*module, *(["--out", str(self.packages)] if self._servers_stand else ["--only-runtime"])], cwd=tree)

    def synthesise(self, tree: Path = ROOT) -> None:
        """Synthesise the CloudFormation templates of a checkout, with the addresses of the servers."""
        out = self.assembly.parent
        self._run([sys.executable, "-m", "infra.cdk.app", "--out", str(out), ENVIRONMENT], cwd=tree)

    def bootstrap(self) -> None:
        """Create the resources that CDK needs in an account."""
        self.cdk("bootstrap", f"aws://{ACCOUNT}/{REGION}", app=False)

    def deploy(self, *, change_sets: bool = True) -> None:
        """Deploy every stack.

        Args:
            change_sets: Use change sets, CDK's default; without them it is quicker.
        """
        method = "change-set" if change_sets else "direct"
        self.cdk("deploy", "--all", "--require-approval", "never", "--concurrency", "3", "--method", method)

    def provision(self) -> None:
        """Provision the servers before records arrive."""
        servers = self._servers()
        variables = {
            "SCHEMA_REGISTRY_URL": servers["registry_url"],
            "OPENSEARCH_URL": servers["directory_url"],
            "OPENSEARCH_AUTHENTICATION": "none",
            "CDC_GENERATION": GENERATION,
            "METRICS_DATABASE_URL": servers["database_url"],
        }
        self._run([sys.executable, "-m", "infra.provision"], cwd=ROOT, variables=variables)

    def count(self) -> None:
        """Start the metrics job, which CDK deploys to EMR Serverless in AWS."""
        self.stack.known["spark"] = all_services(self.config)["spark"]
        self.stack.ensure("spark")

    def smoke(self, *, club: int, user: int, kind: str) -> dict[str, str]:
        """Check the deployment as an operator does; return the problem of each check, which is empty if the check
        succeeds.

        Args:
            club: The tenant of the sends.
            user: The recipient of an e-mail.
            kind: The category of the sends.
        """
        # LocalStack's host names need DNS, so that the address of the stack's outputs cannot be used.
        options = [f"--url={self.api_url}", f"--club={club}", f"--user={user}", f"--type={kind}", "--json"]
        output = self._run([sys.executable, "-m", "infra.smoke", ENVIRONMENT, *options], cwd=ROOT, statuses=(0, 1))
        checks = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return {each["check"]: each["problem"] for each in checks}

    def alarms_without_data(self) -> set[str]:
        """Return the names of the alarms that missing data triggers. LocalStack has no metrics of functions, which
        CloudWatch makes of their log lines.
        """
        alarms = self.client("cloudwatch").describe_alarms(AlarmNamePrefix=f"{PREFIX}-")["MetricAlarms"]
        missing = (each["AlarmName"] for each in alarms if each.get("TreatMissingData") == "breaching")
        return {name.removeprefix(f"{PREFIX}-") for name in missing}

    def diff(self) -> str:
        """Return CDK's report about differences between the templates and the deployed stacks.

        Raises:
            DeploymentError: There are differences.
        """
        return self.cdk("diff", "--all", "--fail")

    def destroy(self) -> None:
        """Destroy every stack, each bucket with an object, and the API keys."""
        for bucket in self.client("s3").list_buckets()["Buckets"]:
            if bucket["Name"].startswith(PREFIX):
                self.client("s3").put_object(Bucket=bucket["Name"], Key="data", Body=b"data")
        self._run([sys.executable, "-m", "infra.destroy", ENVIRONMENT], cwd=ROOT)

    def cdk(self, command: str, *arguments: str, app: bool = True) -> str:
        """Run a command of the CDK version in package.json; return its output."""
        program = [str(CDK / "node_modules" / ".bin" / "cdk"), command, *arguments]
        if not Path(program[0]).exists():
            raise DeploymentError("CDK's command line is not there: `npm ci` in infra/cdk, or `make deploy-local`")
        return self._run([*program, *(["--app", str(self.assembly)] if app else [])], cwd=CDK)

    def _run(
        self,
        command: list[str],
        *,
        cwd: Path,
        variables: Mapping[str, str] | None = None,
        statuses: Collection[int] = (0,),
    ) -> str:
        environment = {**self._environment(), **(variables or {})}
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        with self._log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{output}\n")
        if done.returncode not in statuses:
            raise DeploymentError(f"{Path(command[0]).name} {' '.join(command[1:4])}:\n{output[-6000:]}")
        return output

    def _environment(self) -> Mapping[str, str]:
        return {
            **{name: value for name, value in base_environment().items() if name != "PYTHONPATH"},
            "AWS_ENDPOINT_URL": self.config.aws_url,
            "MASSCOMM_PACKAGES": str(self.packages),
            "MASSCOMM_REQUIRE_PACKAGES": "1",
            "MASSCOMM_SERVERS": json.dumps(self._servers()),
            "CDK_HOME": str(self.config.state_dir / "cdk-home"),
            "CDK_DISABLE_VERSION_CHECK": "1",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
            "CI": "1",
            "NO_COLOR": "1",
        }

    def _servers(self) -> dict[str, str]:
        """Return the fields of infra.cdk.config.ExternalServers."""
        return {
            "kafka": self.config.kafka_bootstrap,
            "registry_url": self.config.registry_url,
            "directory_url": self.config.opensearch_url,
            # The URL names a password file, so templates and environment variables contain no password.
            "database_url": f"postgresql://masscomm@127.0.0.1:{self.config.ports.postgres}/metrics"
            f"?passfile={quote(str(self._password_file()))}",
        }

    def _password_file(self) -> Path:
        path = self.config.run_dir / "pgpass"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(f"*:*:*:masscomm:{self.config.password}\n")
        return path
