"""What a team may do: a Role in its namespace, bound to its people and, where it has one, to its ServiceAccount.

Nothing here is cluster-wide. Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from trainstack.objects.labels import Manifest, metadata
from trainstack.platform.rbac.rights import API, for_a_team, rules
from trainstack.settings.sections.tenants import Team

TENANT = "tenant-"
"""What the names of teams' roles and bindings begin with."""


def rights(team: Team, stack: str) -> list[Manifest]:
    """A team's Role and RoleBinding, and before them the ServiceAccount where it has one."""
    name = f"{TENANT}{team.name}"

    def of_team(api_version: str, kind: str, name: str) -> Manifest:
        meta = metadata(name, stack, namespace=team.namespace)
        return {"apiVersion": api_version, "kind": kind, "metadata": meta}

    accounts = [team.service_account] if team.service_account else []
    return [
        *(of_team("v1", "ServiceAccount", account) for account in accounts),
        {
            **of_team(f"{API}/v1", "Role", name),
            "rules": rules(for_a_team(team.namespace)),
        },
        {
            **of_team(f"{API}/v1", "RoleBinding", name),
            "roleRef": {"apiGroup": API, "kind": "Role", "name": name},
            "subjects": [
                *({"apiGroup": API, "kind": "Group", "name": group} for group in team.groups),
                *({"apiGroup": API, "kind": "User", "name": user} for user in team.users),
                *({"kind": "ServiceAccount", "name": account, "namespace": team.namespace} for account in accounts),
            ],
        },
    ]
