"""The Kubernetes manifests, as rendered: valid, least privilege, and in step with the code they run."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
from msgspec.structs import replace

from support.manifests import (
    FOLDER,
    VARIANTS,
    Container,
    container,
    containers,
    named,
    of_kind,
    rendered,
    selects,
    workloads,
)
from tidegate.events.config import Settings
from tidegate.gateway.server_limits import ServerLimits
from tidegate.runtime.cli import app
from tidegate.runtime.roles.gateway import RELAY_WAIT_S
from tidegate.runtime.settings import parse_settings

pytestmark = pytest.mark.parametrize("variant", VARIANTS)

# The oldest version in which sidecars are stable and the newest whose schemas we have.
VERSIONS = ("1.33", kubernetes_validate.latest_version())
METADATA = ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16")
GIB = 1024**3


def settings_of(variant: str, name: str = "tidegate.toml") -> Settings:
    (config,) = (
        one for one in of_kind(variant, "ConfigMap") if one["metadata"]["name"].startswith("tidegate-config-")
    )
    return parse_settings(config["data"][name], name)


def where(one: Container) -> str:
    return f"{one.workload.name}/{one.name}"


@pytest.mark.slow  # large schemas
@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_to_the_last_field(variant: str, version: str) -> None:
    for thing in rendered(variant):
        kubernetes_validate.validate(thing, version, strict=True)


def test_what_is_told_to_apply_first_deletes_the_jobs_that_cannot_be_changed(variant: str) -> None:
    jobs = [job["metadata"]["name"] for job in of_kind(variant, "Job")]
    lines = [line.strip() for line in (FOLDER / "README.md").read_text().splitlines()]
    (apply,) = (
        index for index, line in enumerate(lines) if line.startswith("kubectl") and " apply -k " in line
    )
    before = [line for line in lines[:apply] if " delete job " in line]
    assert before == [f"kubectl -n tidegate delete job {' '.join(jobs)} --ignore-not-found"]


def test_every_file_of_a_variant_is_used(variant: str) -> None:
    text = (FOLDER / variant / "kustomization.yaml").read_text()
    files = {path.name for path in (FOLDER / variant).iterdir() if path.is_file()}
    assert {name for name in files if f"- {name}" not in text} == {"kustomization.yaml"}


def test_nothing_is_bound_to_a_namespace_and_no_secret_is_in_the_manifests(variant: str) -> None:
    for thing in rendered(variant):
        assert "namespace" not in thing["metadata"], thing["metadata"]
        assert thing["kind"] != "Secret"


def test_pods_run_without_root_without_token_under_seccomp(variant: str) -> None:
    for workload in workloads(variant):
        security = workload.pod["securityContext"]
        assert security["runAsNonRoot"] is True, workload.name
        assert min(security["runAsUser"], security["runAsGroup"]) > 0, workload.name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, workload.name
        assert workload.pod["automountServiceAccountToken"] is False, workload.name
        assert workload.pod["enableServiceLinks"] is False, workload.name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & workload.pod.keys(), workload.name
        kinds = {kind for volume in workload.pod.get("volumes", ()) for kind in volume if kind != "name"}
        assert kinds <= {"configMap", "secret", "emptyDir"}, workload.name


def test_containers_can_gain_no_privilege_and_write_only_to_their_volumes(variant: str) -> None:
    for one in containers(variant):
        security = one.spec["securityContext"]
        assert security == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, where(one)
        writable = {mount["mountPath"] for mount in one.spec["volumeMounts"] if not mount.get("readOnly")}
        assert writable <= {"/var/lib/tidegate"}, where(one)


def test_images_are_tagged_and_never_latest(variant: str) -> None:
    for one in containers(variant):
        name, _, tag = one.spec["image"].partition(":")
        assert name == "tidegate", where(one)
        assert tag not in {"", "latest"}, where(one)


def test_no_container_needs_a_shell(variant: str) -> None:
    for one in containers(variant):
        probes = [probe for key, probe in one.spec.items() if key.endswith("Probe")]
        commands = [probe["exec"]["command"] for probe in probes if "exec" in probe]
        commands.append(one.spec.get("command", ["python"]))
        assert {command[0] for command in commands} == {"python"}, where(one)
        assert "lifecycle" not in one.spec, where(one)


def test_every_container_has_requests_and_limits(variant: str) -> None:
    for one in containers(variant):
        for bound in ("requests", "limits"):
            assert one.spec["resources"][bound].keys() >= {"cpu", "memory"}, where(one)


def test_what_lasts_has_a_liveness_probe_and_what_listens_is_asked_over_http(variant: str) -> None:
    for one in containers(variant):
        if not one.lasting:
            continue
        liveness = one.spec["livenessProbe"]
        ports = {port["name"] for port in one.spec.get("ports", ())} - {"metrics"}
        if ports:
            assert liveness["httpGet"]["port"] in ports, where(one)
        else:
            assert f"/run/{one.name}.metrics" in liveness["exec"]["command"][-1], where(one)
    gateway = container(variant, "tidegate-gateway", "gateway")
    assert gateway["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert gateway["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container(variant, "tidegate-admin", "admin")["readinessProbe"]["httpGet"]["path"] == "/healthz"


def test_every_command_line_is_one_the_program_takes(variant: str) -> None:
    commands = typer.main.get_command(app)
    for one in containers(variant):
        if "command" in one.spec:
            continue
        command: Any = commands
        context, rest = None, list(one.spec["args"])
        while hasattr(command, "resolve_command"):
            context = command.make_context("tidegate", [], resilient_parsing=True)
            _, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command = found
        given = command.make_context(command.name, rest, parent=context).params
        assert str(given["config"]).startswith("/etc/tidegate/"), where(one)


def test_configs_in_the_manifests_are_good_and_fit_their_pods(variant: str) -> None:
    settings, relay = settings_of(variant), settings_of(variant, "relay.toml")
    assert settings.log.kind == "kafka"
    assert settings.durability == "strict"
    for one in containers(variant):
        mounts = {mount["mountPath"] for mount in one.spec["volumeMounts"]}
        if "/var/lib/tidegate" in mounts:
            # A folder below the mount point: its mode is set by the process, which must own it.
            assert settings.data_dir == relay.data_dir == "/var/lib/tidegate/data", where(one)


def test_relays_write_to_the_log_that_everybody_reads_and_only_one_archives(variant: str) -> None:
    settings, relay = settings_of(variant).log, settings_of(variant, "relay.toml").log
    assert (settings.archive, relay.archive) == (True, False)
    assert replace(relay, archive=True) == settings
    configs = {
        one.workload.name: Path(one.spec["args"][2]).name
        for one in containers(variant)
        if one.spec.get("args", [""])[0] == "log"
    }
    assert configs == {
        "tidegate-gateway": "relay.toml",
        "tidegate-estimator": "relay.toml",
        "tidegate-projector": "tidegate.toml",
    }


def test_every_pod_that_keeps_a_journal_has_a_relay_that_outlives_its_writer(variant: str) -> None:
    for workload in workloads(variant):
        roles = {spec["args"][0] for spec in workload.pod["containers"]}
        if roles & {"gateway", "estimator", "projector"}:
            (relay,) = (spec for spec in workload.pod["initContainers"] if spec["name"] == "log")
            assert relay["restartPolicy"] == "Always", workload.name
            assert workload.owner["volumeClaimTemplates"], workload.name


def test_ports_are_those_of_the_config_all_the_way(variant: str) -> None:
    settings = settings_of(variant)
    wanted = {"http": settings.gateway.port, "admin": settings.admin.port, "metrics": settings.metrics.port}
    assert settings.metrics == settings_of(variant, "relay.toml").metrics
    assert settings.metrics.host == "0.0.0.0"
    assert (settings.gateway.host, settings.admin.host) == ("0.0.0.0", "0.0.0.0")
    for one in containers(variant):
        for port in one.spec.get("ports", ()):
            assert port["containerPort"] == (
                9000 if "simulator" in one.workload.name else wanted[port["name"]]
            )
    for service in of_kind(variant, "Service"):
        chosen = [
            w for w in workloads(variant) if selects({"matchLabels": service["spec"]["selector"]}, w.labels)
        ]
        assert len(chosen) == 1, service["metadata"]["name"]
        names = {port["name"] for spec in chosen[0].pod["containers"] for port in spec.get("ports", ())}
        for port in service["spec"].get("ports", ()):
            assert port["targetPort"] in names, service["metadata"]["name"]
    admitted = {
        (policy["metadata"]["name"], port["port"])
        for policy in of_kind(variant, "NetworkPolicy")
        for rule in policy["spec"].get("ingress", ())
        for port in rule["ports"]
    }
    assert admitted >= {
        ("tidegate-clients", settings.gateway.port),
        ("tidegate-admin", settings.admin.port),
        ("tidegate-metrics", settings.metrics.port),
    }


def test_every_pod_with_a_relay_shows_its_numbers(variant: str) -> None:
    shown = [
        one.workload
        for one in containers(variant)
        if any(port["name"] == "metrics" for port in one.spec.get("ports", ()))
    ]
    names = {"tidegate-gateway", "tidegate-estimator", "tidegate-projector"}
    assert {workload.name for workload in shown} == names
    policy = named(variant, "NetworkPolicy", "tidegate-metrics")["spec"]
    for workload in workloads(variant):
        assert selects(policy["podSelector"], workload.labels) == (workload.name in names), workload.name


def test_a_pod_that_ends_is_given_the_time_its_drain_may_take(variant: str) -> None:
    gateway, limits = settings_of(variant).gateway, ServerLimits()
    (pod,) = (one.pod for one in workloads(variant) if one.name == "tidegate-gateway")
    drain_s = gateway.drain_delay_s + gateway.drain_grace_s + limits.settle_grace_s + RELAY_WAIT_S
    relay_s = 20
    assert pod["terminationGracePeriodSeconds"] >= drain_s + relay_s
    readiness = container(variant, "tidegate-gateway", "gateway")["readinessProbe"]
    assert gateway.drain_delay_s > 0
    assert readiness["periodSeconds"] <= 2


def test_what_a_worker_may_hold_fits_into_the_memory_of_its_pod(variant: str) -> None:
    gateway, mib = settings_of(variant).gateway, 1024**2
    limit = container(variant, "tidegate-gateway", "gateway")["resources"]["limits"]["memory"]
    given = int(limit[:-2]) * {"Mi": mib, "Gi": GIB}[limit[-2:]]
    held = gateway.max_held_body_bytes or max(given // 4 // gateway.workers, gateway.max_body_bytes)
    own, a_stream = 90 * mib, mib // 2
    assert own + 2 * held + gateway.max_in_flight * a_stream <= given, variant


def test_volumes_hold_a_full_journal_and_survive_their_pods(variant: str) -> None:
    log = settings_of(variant).log
    for name in ("tidegate-gateway", "tidegate-projector"):
        spec = named(variant, "StatefulSet", name)["spec"]
        asked = spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
        size = int(re.fullmatch(r"(\d+)Gi", asked)[1]) * GIB  # type: ignore[index]
        assert size > log.journal_max_bytes + log.reserve_bytes, name
        assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}, name


def test_secrets_come_as_environment_from_secrets_made_elsewhere(variant: str) -> None:
    settings = settings_of(variant)
    admin = {entry["name"]: entry for entry in container(variant, "tidegate-admin", "admin")["env"]}
    assert settings.admin.token is not None
    kind, _, variable = settings.admin.token.partition(":")
    assert kind == "env"
    assert "secretKeyRef" in admin[variable]["valueFrom"]
    gateway = container(variant, "tidegate-gateway", "gateway")
    assert gateway["envFrom"][0] == {"secretRef": {"name": "tidegate-providers"}}
    assert settings.data_key is not None
    kind, _, variable = settings.data_key.partition(":")
    keyed = {entry["name"]: entry for entry in gateway["env"]}
    assert (kind, "secretKeyRef" in keyed[variable]["valueFrom"]) == ("env", True)
    assert {where(one) for one in containers(variant) if "tidegate-data-key" in str(one.spec)} == {
        "tidegate-gateway/gateway"
    }
    assert all((target.secret or "env:").startswith("env:") for target in settings.targets)
    holders = {where(one) for one in containers(variant) if "tidegate-providers" in str(one.spec)}
    assert holders == {"tidegate-gateway/gateway"}


def test_every_process_that_speaks_to_kafka_may_be_given_its_password(variant: str) -> None:
    given = {"secretRef": {"name": "tidegate-kafka", "optional": True}}
    for one in containers(variant):
        if "simulator" not in one.workload.name:
            assert given in one.spec["envFrom"], where(one)


def test_nothing_is_allowed_on_the_network_unless_a_policy_says_so(variant: str) -> None:
    policies = of_kind(variant, "NetworkPolicy")
    (deny,) = (policy["spec"] for policy in policies if policy["metadata"]["name"] == "tidegate-deny")
    assert set(deny["policyTypes"]) == {"Ingress", "Egress"}
    assert not {"ingress", "egress"} & deny.keys()
    for workload in workloads(variant):
        assert selects(deny["podSelector"], workload.labels), workload.name
        reaches = {
            policy["metadata"]["name"]
            for policy in policies
            if "egress" in policy["spec"] and selects(policy["spec"]["podSelector"], workload.labels)
        }
        wanted = {"tidegate-dns"} | ({"tidegate-kafka"} if "simulator" not in workload.name else set())
        if workload.name == "tidegate-gateway":
            wanted |= {name for name in reaches if name in {"tidegate-providers", "tidegate-to-simulator"}}
            assert "tidegate-providers" in wanted
        assert reaches == wanted, workload.name


def test_every_rule_names_both_peers_and_ports(variant: str) -> None:
    for policy in of_kind(variant, "NetworkPolicy"):
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for rule in policy["spec"].get(direction, ()):
                assert rule.get(peers), policy["metadata"]["name"]
                assert rule.get("ports"), policy["metadata"]["name"]


@pytest.mark.parametrize("address", [*METADATA, "10.0.0.1", "172.17.0.1", "192.168.1.1", "127.0.0.1", "::1"])
def test_no_pod_can_reach_metadata_or_private_addresses(variant: str, address: str) -> None:
    asked = ipaddress.ip_address(address)
    for policy in of_kind(variant, "NetworkPolicy"):
        blocks = [
            peer["ipBlock"]
            for rule in policy["spec"].get("egress", ())
            for peer in rule["to"]
            if "ipBlock" in peer
        ]
        for block in blocks:
            is_open = asked in ipaddress.ip_network(block["cidr"])
            is_shut = any(asked in ipaddress.ip_network(hole) for hole in block.get("except", ()))
            assert not is_open or is_shut, (policy["metadata"]["name"], block["cidr"])


def test_only_one_gateway_at_a_time_is_evicted(variant: str) -> None:
    budget = named(variant, "PodDisruptionBudget", "tidegate-gateway")["spec"]
    (gateway,) = (one for one in workloads(variant) if one.name == "tidegate-gateway")
    assert selects(budget["selector"], gateway.labels)
    assert budget["maxUnavailable"] == 1


def test_roles_that_would_fence_each_other_run_once(variant: str) -> None:
    for name in ("tidegate-estimator", "tidegate-projector"):
        assert named(variant, "StatefulSet", name)["spec"]["replicas"] == 1
    admin = named(variant, "Deployment", "tidegate-admin")["spec"]
    assert (admin["replicas"], admin["strategy"]) == (1, {"type": "Recreate"})
