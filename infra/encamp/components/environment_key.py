"""The key of what an environment stores, and who of Google's own may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    from encamp.plan.environment.model import AgentPlan, KeyPlan
    from encamp.plan.model import EnvironmentPlan

ROLE = "roles/cloudkms.cryptoKeyEncrypterDecrypter"


class EnvironmentKey(pulumi.ComponentResource):
    """A Cloud KMS key with its ring, or a key that exists, and the grants that make it usable.

    Google deletes neither rings nor keys: destroying the environment destroys the key's versions, and with them
    whatever they encrypted.

    Attributes:
        grants: what must stand before anything is encrypted.
    """

    def __init__(
        self, name: str, plan: EnvironmentPlan, key: KeyPlan, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("encamp:components:EnvironmentKey", name, {}, opts)
        self._plan = plan
        key_id = pulumi.Output.from_input(key.full_name) if key.ring is None else self._made(name, key, key.ring)
        self.grants: list[pulumi.Resource] = [self._grant(name, agent, key_id) for agent in key.agents]
        self.register_outputs({})

    def _made(self, name: str, key: KeyPlan, ring: str) -> pulumi.Output[str]:
        plan = self._plan
        kept = pulumi.ResourceOptions(parent=self, protect=plan.protect)
        made = gcp.kms.KeyRing(name, name=ring, location=plan.region, project=plan.project, opts=kept)
        return gcp.kms.CryptoKey(
            name,
            name=key.full_name.rpartition("/")[2],
            key_ring=made.id,
            purpose="ENCRYPT_DECRYPT",
            rotation_period=key.rotation,
            labels=dict(plan.labels),
            opts=kept,
        ).id

    def _grant(self, name: str, agent: AgentPlan, key_id: pulumi.Output[str]) -> gcp.kms.CryptoKeyIAMMember:
        child = pulumi.ResourceOptions(parent=self)
        if agent.identity is not None:
            identity = gcp.projects.ServiceIdentity(
                f"{name}-{agent.name}", service=agent.identity, project=self._plan.project, opts=child
            )
            child = pulumi.ResourceOptions(parent=self, depends_on=[identity])
        return gcp.kms.CryptoKeyIAMMember(
            f"{name}-{agent.name}",
            crypto_key_id=key_id,
            role=ROLE,
            member=pulumi.Output.concat("serviceAccount:", self._email(agent)),
            opts=child,
        )

    def _email(self, agent: AgentPlan) -> pulumi.Output[str]:
        asked = pulumi.InvokeOutputOptions(parent=self)
        form = agent.email
        if form is None:
            return gcp.storage.get_project_service_account_output(project=self._plan.project, opts=asked).email_address
        found = gcp.organizations.get_project_output(project_id=self._plan.project, opts=asked)
        return found.number.apply(lambda number: form.format(number=number))
