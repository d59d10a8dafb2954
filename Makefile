# `make help` lists the targets. Everything is made inside this folder: .venv, .devstack (jars, LocalStack) and .state.
.DEFAULT_GOAL := help
# Every target starts many Python processes: without compiled modules each one compiles its own.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup browser run demo pictures test test-console test-client test-java check out/collected.txt faults nightly spark-next job-python faults-headline faults-mutants bench bench-lanes bench-metrics capacity recompute-check audit sbom licences synth snapshots package package-job deploy-local clean-state lock status down

# setup.py itself looks for Python 3.13; any python3 can report missing prerequisites.
PYTHON ?= python3
MASSCOMM := .venv/bin/python -m cli.main
# A short run of Maven needs half of the processor time with the first compiler only.
MVN := MAVEN_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $(MAVEN_OPTS)" mvn -B -ntp -q --strict-checksums

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## check the prerequisites, make the environments, fetch the jars; only what changed
	@$(PYTHON) local/devstack/setup.py

run: setup ## start everything, with users to send to; stay up until Ctrl-C
	@$(MASSCOMM) up

demo: setup ## start everything, run the demo, stop; fails on any mismatch
	@$(MASSCOMM) up --demo --exit

check: setup ## lint, format, types, layers, prose, stored templates
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python -m tests.support.prose
	.venv/bin/cfn-lint

# One worker runs the tests with a whole stack and waits for servers half of its time; two processors can run two more.
TEST_WORKERS ?= 3
test: setup ## the checks and tests of each change, servers included; `make nightly` has the rest
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check test-console test-client test-java out/collected.txt browser infra/cdk/node_modules/.package-lock.json
	.venv/bin/python -m pytest -n $(TEST_WORKERS) --dist loadscope --no-loadscope-reorder

test-console: setup ## the unit tests of the web console
	npm test --prefix web --silent

test-client: setup ## the types and the cases of the TypeScript client
	npm test --prefix sdk/typescript --silent

test-java: setup ## the cases of the Java client
	$(MVN) -f sdk/java/pom.xml test

# Collecting compiles the test modules. Otherwise each worker compiles all of them.
out/collected.txt: setup
	@mkdir -p out
	.venv/bin/python -m pytest --collect-only -q > $@ || { cat $@; exit 1; }

browser: setup ## the browser of the console's tests, and further programs of tests
	@$(PYTHON) local/devstack/setup.py --browser

faults: setup ## every cell of the fault matrix into out/faults.json; HEADLINE=1: and the broadcast to 100,000
	.venv/bin/python -m pytest tests/faults/test_matrix.py --cells all $(if $(HEADLINE),--headline) -v --tb=short

# The program that copies images of containers (infra/images.py), and a registry for its test.
.devstack/go/bin/crane:
	GOBIN=$(CURDIR)/.devstack/go/bin go install github.com/google/go-containerregistry/cmd/crane@v0.20.6

nightly: setup .devstack/go/bin/crane ## all fault cells, 20,000 hostile records a topic, further variants and pages, an upgrade from version 0.1.0
	.venv/bin/python -m pytest tests/unit/test_hostile_records.py tests/unit/spark_events/test_record_mapping.py tests/unit/spark_metrics/test_hostile_records.py --flood full -v --tb=short
	.venv/bin/python -m pytest tests/upgrade --nightly -v --tb=short
	.venv/bin/python -m pytest tests/restore --nightly -v --tb=short
	.venv/bin/python -m pytest tests/unit/openapi/test_schemathesis.py --nightly -v --tb=short
	.venv/bin/python -m pytest tests/unit/events tests/unit/rendering/test_step_times.py tests/unit/test_route_costs.py tests/unit/device_registrar/test_interleavings.py tests/unit/directory_state/test_audiences.py tests/unit/infra/test_emulators.py tests/unit/infra/test_enforced_permissions.py tests/unit/infra/test_existing.py tests/unit/infra/test_linted_templates.py tests/unit/infra/test_parts.py --nightly -v --tb=short
	.venv/bin/python -m pytest tests/e2e tests/component/cdc tests/component/console tests/component/deployment tests/component/directory_state tests/component/events tests/component/masscomm/test_whole_batches.py tests/component/packaging tests/component/prometheus tests/component/webhooks --nightly -v --tb=short
	.venv/bin/python -m pytest tests/component/spark_events tests/component/spark_metrics --nightly -v --tb=short
	$(MASSCOMM) up --demo --own-topics --exit
	MASSCOMM_POLLERS=on-demand $(MASSCOMM) up --demo --exit
	MASSCOMM_FUNCTION_ENVIRONMENTS=4 $(MASSCOMM) up --demo --exit
	$(MAKE) spark-next
	$(MAKE) job-python
	$(MAKE) faults

# Spark's next version and its jars are in an environment of their own, in front of the project's.
SPARK_NEXT = $(CURDIR)/out/spark-next
spark-next: setup ## the tests of the metrics job on the next version of Spark
	.devstack/uv/bin/uv venv -q --allow-existing --python .venv/bin/python $(SPARK_NEXT)
	.devstack/uv/bin/uv pip install -q --python $(SPARK_NEXT)/bin/python --require-hashes -r requirements/spark-next.txt
	echo 'import site; site.addsitedir("$(CURDIR)/.venv/lib/python3.13/site-packages")' > $(SPARK_NEXT)/lib/python3.13/site-packages/project.pth
	$(MVN) -f tests/support/spark/spark_next.xml dependency:copy-dependencies -DoutputDirectory=$(SPARK_NEXT)/jars
	MASSCOMM_SPARK_JARS=$(SPARK_NEXT)/jars $(SPARK_NEXT)/bin/python -m pytest tests/unit/spark_events tests/component/spark_events tests/unit/spark_metrics tests/component/spark_metrics -v --tb=short

# EMR's Python (SparkConfig in infra/cdk/config.py): a version, or the path of an interpreter.
JOB_PYTHON ?= 3.12
job-python: setup ## the tests of the metrics job on the Python of EMR; JOB_PYTHON=/path if uv finds none
	.devstack/uv/bin/uv venv -q --allow-existing --python $(JOB_PYTHON) out/job-python
	.devstack/uv/bin/uv pip install -q --python out/job-python/bin/python --require-hashes -r requirements/main.txt
	out/job-python/bin/python -m pytest tests/unit/spark_events tests/component/spark_events tests/unit/spark_metrics tests/component/spark_metrics -v --tb=short

faults-headline: setup ## a broadcast to 100,000 while every process is killed in turn
	.venv/bin/python -m tests.faults.headline

faults-mutants: setup ## remove each guard in a copy and check that a cell or a test fails
	.venv/bin/python -m tests.faults.mutants

bench-metrics: setup ## records counted a second by load, the worst first, and the delay until they are served
	.venv/bin/python -m lab.benchmarks.metrics_throughput
	.venv/bin/python -m lab.benchmarks.metrics_freshness

bench-lanes: setup ## a one-time password during a broadcast, and one tenant's sends during another tenant's broadcast
	.venv/bin/python -m lab.benchmarks.critical_during_bulk
	.venv/bin/python -m lab.benchmarks.tenants
	.venv/bin/python -m lab.benchmarks.broadcasts

bench: setup ## the whole chain: rates, latencies, processor time by function and server, into out/chain.json
	.venv/bin/python -m lab.benchmarks.chain

pictures: browser ## the pictures of the README, in docs/pictures, from the stack that runs
	.venv/bin/python -m tests.support.pictures

recompute-check: setup ## count the demo's data again from the archive, and compare: 0 differing rows
	@$(MASSCOMM) recompute-check

capacity: setup ## costs and the limit that comes first, into docs/internals/capacity.md; no AWS account
	.venv/bin/python -m lab.capacity.report

audit: sbom ## known vulnerabilities of pinned packages and jars; needs the advisory services
	.devstack/supply-chain-venv/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off $(foreach list,$(wildcard requirements/*.txt),-r $(list))
	npm audit --prefix infra/cdk --package-lock-only
	npm audit --prefix web --package-lock-only
	npm audit --prefix sdk/typescript --package-lock-only
	.venv/bin/python -m infra.supply_chain.advisories out/sbom/jars.cdx.json out/sbom/connect.cdx.json out/sbom/java_client.cdx.json

sbom: setup .devstack/supply-chain-venv ## bills of materials (CycloneDX) of packages and jars, in out/sbom
	@mkdir -p out/sbom
	.devstack/supply-chain-venv/bin/cyclonedx-py environment --output-reproducible --short-PURLs -o out/sbom/python.cdx.json .venv/bin/python
	$(MVN) -f local/devstack/jars/pom.xml org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeAggregateBom -DoutputDirectory=$(CURDIR)/out/sbom -DoutputName=jars.cdx -DoutputFormat=json
	$(MVN) -f infra/connect/pom.xml org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom -DoutputDirectory=$(CURDIR)/out/sbom -DoutputName=connect.cdx -DoutputFormat=json
	$(MVN) -f sdk/java/pom.xml org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom -DoutputDirectory=$(CURDIR)/out/sbom -DoutputName=java_client.cdx -DoutputFormat=json

licences: sbom ## the licence of every package and jar, in out/sbom/licences.tsv; fails if one is missing or refused
	.venv/bin/python -m infra.supply_chain.licences out/sbom/python.cdx.json out/sbom/jars.cdx.json out/sbom/connect.cdx.json out/sbom/java_client.cdx.json > out/sbom/licences.tsv

.devstack/supply-chain-venv: requirements/supply-chain.txt
	.venv/bin/python -m venv --clear $@
	$@/bin/pip install -q --require-hashes -r $<

ENVIRONMENTS ?= dev staging
synth: setup ## the CloudFormation templates of ENVIRONMENTS, in out/cdk; needs no AWS account
	.venv/bin/python -m infra.cdk.app --out out/cdk $(ENVIRONMENTS)

deploy-local: setup infra/cdk/node_modules/.package-lock.json ## every stack onto LocalStack, sends through the deployed functions, destroy; the templates of 0.1.0, the present ones and back; no AWS account
	.venv/bin/python -m local.devstack.deployed
	.venv/bin/python -m pytest tests/localstack/test_template_upgrade.py --deployment whole -v --tb=short

# CDK's command line in the version of package.json.
infra/cdk/node_modules/.package-lock.json: infra/cdk/package-lock.json
	npm ci --prefix infra/cdk --no-audit --no-fund --loglevel=error
	@touch $@

package-job: setup ## the streaming job's dependencies, for EMR's Python on arm64, in infra/package
	rm -rf out/job && mkdir -p out/job infra/package
	.devstack/uv/bin/uv pip install -q --target out/job --python-version 3.12 --python-platform aarch64-manylinux_2_28 --only-binary :all: --require-hashes -r requirements/job.txt
	.venv/bin/python -m infra.job_archive out/job infra/package/spark_metrics.zip

snapshots: setup ## renew the stored templates, and lists of each stack's resources
	-MASSCOMM_RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest -q tests/unit/infra/test_snapshots.py

status: ## list the running services
	@$(MASSCOMM) status

down: ## stop the stack
	@$(MASSCOMM) down

package: setup ## a zip for each function, for Lambda, into infra/package
	@.venv/bin/python -m infra.packaging

clean-state: ## remove all data of the stack
	@$(MASSCOMM) clean-state

lock: ## compile the requirements to hashed lock files, and write the SHA-256 of every jar
	@$(PYTHON) local/devstack/setup.py --lock-jars
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/bootstrap.in -o requirements/bootstrap.txt
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/main.in -o requirements/main.txt
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/localstack.in -o requirements/localstack.txt
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/supply-chain.in -o requirements/supply-chain.txt
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.12 --python-platform aarch64-manylinux_2_28 -c requirements/main.txt requirements/job.in -o requirements/job.txt
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/spark-next.in -o requirements/spark-next.txt
