"""The rights of a team: a Role in its namespace, bound to the members and the optional ServiceAccount.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from collections.abc import Collection

from trainstack.objects.labels import Manifest, metadata
from trainstack.objects.launch_kinds import GroupResource
from trainstack.platform.rbac.rights import API, policy_rules, team_rights
from trainstack.settings.sections.tenants import Team

TENANT_PREFIX = "tenant-"
"""The prefix of the names of teams' roles and bindings."""


def team_manifests(team: Team, stack: str, optional_kinds: Collection[GroupResource] = ()) -> list[Manifest]:
    """Return the optional ServiceAccount, the Role and the RoleBinding of a team.

    `optional_kinds`: the kinds of launches beyond STANDARD_LAUNCH_KINDS that the platform serves.
    """
    name = f"{TENANT_PREFIX}{team.name}"

    def team_object(api_version: str, kind: str, name: str) -> Manifest:
        meta = metadata(name, stack, namespace=team.namespace)
        return {"apiVersion": api_version, "kind": kind, "metadata": meta}

    accounts = [team.service_account] if team.service_account else []
    return [
        *(team_object("v1", "ServiceAccount", account) for account in accounts),
        {**team_object(f"{API}/v1", "Role", name), "rules": policy_rules(team_rights(team.namespace, optional_kinds))},
        {
            **team_object(f"{API}/v1", "RoleBinding", name),
            "roleRef": {"apiGroup": API, "kind": "Role", "name": name},
            "subjects": [
                *({"apiGroup": API, "kind": "Group", "name": group} for group in team.groups),
                *({"apiGroup": API, "kind": "User", "name": user} for user in team.users),
                *({"kind": "ServiceAccount", "name": account, "namespace": team.namespace} for account in accounts),
            ],
        },
    ]
