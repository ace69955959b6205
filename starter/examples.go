package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// addExamples sets the examples in the help of all commands.
func addExamples(root *cobra.Command) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), root.CommandPath()+" ")
		if text := examples[path]; text != "" {
			cmd.Example = "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// examples are the examples of each command by its path. A comment says what the next line does.
var examples = map[string]string{
	"upgrade plan": `
# what the rollout in a file would do
drydock upgrade plan -f rollout.yaml --context hub
# the same, from objects in a file, without any server
drydock upgrade plan -f rollout.yaml --snapshot hub.yaml -o json`,
	"upgrade start": `
drydock upgrade start -f rollout.yaml --reason "kernel CVE"
# follow it to its end; the exit status tells whether it succeeded
drydock upgrade start -f rollout.yaml --wait --timeout 2h`,
	"upgrade apply":   `drydock upgrade apply -f rollout.yaml`,
	"upgrade enable":  `drydock upgrade enable prod/november`,
	"upgrade pause":   `drydock upgrade pause prod/november --reason "pager storm in region east"`,
	"upgrade resume":  `drydock upgrade resume prod/november`,
	"upgrade cancel":  `drydock upgrade cancel prod/november --reason "wrong image"`,
	"upgrade approve": `drydock upgrade approve prod/november --batch 2 --reason CHG-1234`,
	"upgrade edit":    `drydock upgrade edit -f rollout.yaml --reason "more time for the large clusters"`,
	"upgrade retry":   `drydock upgrade retry prod/november --wait`,
	"upgrade status": `
drydock upgrade status prod/november
# follow it to its end
drydock upgrade status prod/november --watch
# for a script: fail if the rollout has failed
drydock upgrade status prod/november --exit-status -o name`,
	"upgrade describe": `drydock upgrade describe prod/november`,
	"upgrade list": `
drydock upgrade list --running
# only names, for a script
drydock upgrade list -n prod --no-headers -o jsonpath='{range .items[*]}{.name}{"\n"}{end}'`,
	"upgrade history": `drydock upgrade history prod/november --limit 5`,

	"node maintain": `
drydock node maintain worker-7 --cluster spoke-1 --reason "replace a fan"
# wait until the node is drained and ready for your work
drydock node maintain worker-7 --cluster spoke-1 --wait`,
	"node apply": `drydock node apply -f maintenance.yaml --cluster spoke-1`,
	"node edit": `
# a drain that does not end: begin it again, and also evict pods without a controller
drydock node edit -f maintenance.yaml --cluster spoke-1 --reason "the pod may go"`,
	"node done":    `drydock node done worker-7 --cluster spoke-1`,
	"node fail":    `drydock node fail worker-7 --cluster spoke-1 --reason "the new disk is not found"`,
	"node recover": `drydock node recover worker-7 --cluster spoke-1`,
	"node cancel":  `drydock node cancel worker-7 --cluster spoke-1 --reason "postponed"`,
	"node join":    `drydock node join worker-7 --cluster spoke-1 --requestor gpu.example.com`,
	"node status": `
drydock node status worker-7 --cluster spoke-1
# wait until the node is ready for your work
drydock node status worker-7 --cluster spoke-1 --watch --for Ready`,
	"node describe": `drydock node describe worker-7 --cluster spoke-1`,
	"node list": `
drydock node list --cluster spoke-1 --running
drydock node list -l 'phase in (Draining,Ready)' --watch`,
	"node preview": `
# which pods a drain would evict, and which block it
drydock node preview worker-7 --context spoke-1`,
	"node drain": `drydock node preview worker-7 --context spoke-1`,
	"node schedule": `
drydock node schedule --context spoke-1 --cluster spoke-1
# try other budgets
drydock node schedule --snapshot spoke-1.yaml -f budgets.yaml`,

	"lock controller start":    `drydock lock controller start -f policy.yaml --cluster spoke-1`,
	"lock controller apply":    `drydock lock controller apply -f policy.yaml --cluster spoke-1`,
	"lock controller edit":     `drydock lock controller edit -f policy.yaml --cluster spoke-1 --reason "two nodes at once"`,
	"lock controller status":   `drydock lock controller status ceph --cluster spoke-1`,
	"lock controller describe": `drydock lock controller describe ceph --cluster spoke-1`,
	"lock controller list":     `drydock lock controller list --running`,
	"lock controller cancel":   `drydock lock controller cancel ceph --cluster spoke-1`,
	"lock list": `
drydock lock list --context spoke-1
drydock lock list --context spoke-1 -l app=ceph --watch`,
	"lock progress": `drydock lock progress --context spoke-1 --watch`,
	"lock evaluate": `drydock lock evaluate -f policy.yaml --context spoke-1`,
	"lock gate": `
# may this node be disrupted?
drydock lock gate --node worker-7 --context spoke-1`,

	"window create": `drydock window create -f night.yaml`,
	"window apply":  `drydock window apply -f night.yaml`,
	"window edit":   `drydock window edit -f night.yaml --reason "summer time"`,
	"window extend": `drydock window extend prod/night --until 2026-11-21T04:00:00Z --reason "one node left"`,
	"window end":    `drydock window end prod/night --reason "finished early"`,
	"window cancel": `
# the current opening, or the next one
drydock window cancel prod/night
drydock window cancel prod/night --start 2026-11-28T22:00:00Z`,
	"window delete":   `drydock window delete prod/night --reason "replaced by prod/weekend"`,
	"window override": `drydock window override prod/night --for 2h --reason "CVE-2026-1234"`,
	"window status":   `drydock window status prod/night`,
	"window describe": `drydock window describe prod/night`,
	"window list":     `drydock window list -n prod`,
	"window phase":    `drydock window phase -f maintenance.yaml --at 2026-11-20T22:00:00Z`,
	"window preview":  `drydock window preview -f night.yaml --from 2026-03-01T00:00:00Z`,
	"window allows":   `drydock window allows -f night.yaml --needs 2h --cluster-labels env=prod`,

	"portal apply":    `drydock portal apply -f components.yaml`,
	"portal status":   `drydock portal status main --watch`,
	"portal describe": `drydock portal describe main`,
	"portal cancel":   `drydock portal cancel main switches --reason "moved to next week"`,
	"portal delete":   `drydock portal delete main --component old-web`,
	"portal list":     `drydock portal list`,

	"health check": `
drydock health check -f checks.yaml --context spoke-1
drydock health check -f checks.yaml --snapshot spoke-1.yaml --node worker-7`,

	"harbor apply": `
drydock harbor apply -f harbor.yaml --cluster spoke-1 --wait`,
	"harbor status":   `drydock harbor status registry/main --cluster spoke-1`,
	"harbor describe": `drydock harbor describe registry/main --cluster spoke-1`,
	"harbor list":     `drydock harbor list --running`,
	"harbor delete":   `drydock harbor delete registry/main --cluster spoke-1 --reason "replaced"`,
	"harbor cancel":   `drydock harbor cancel registry/main --cluster spoke-1`,
	"harbor evaluate": `drydock harbor evaluate --snapshot registry.yaml`,

	"onboarding start":    `drydock onboarding start --reason "site east goes live"`,
	"onboarding apply":    `drydock onboarding apply`,
	"onboarding edit":     `drydock onboarding edit`,
	"onboarding stop":     `drydock onboarding stop`,
	"onboarding retry":    `drydock onboarding retry spoke-7 spoke-8`,
	"onboarding status":   `drydock onboarding status`,
	"onboarding describe": `drydock onboarding describe`,
	"onboarding list":     `drydock onboarding list -l state=Failed`,

	"hold": `
# stop new disruption in one cluster, or everywhere
drydock hold --cluster spoke-1 --reason "storage incident"
drydock hold --all --reason "pager storm"

# after a restore of Temporal's database, before the workers start
drydock hold --all --restored --reason "restored the backup of 02:00"`,
	"hold status": `drydock hold status`,
	"release": `
drydock release --cluster spoke-1 --reason "storage is healthy"
drydock release --all`,

	"serve": `
drydock serve --portal main --listen 127.0.0.1:8090`,
	"codec-server": `
drydock codec-server --encryption-key-file keys.yaml --origin http://localhost:8233`,
	"setup": `
# search attributes in Temporal, CRDs on the hub and on a spoke
drydock setup --hub-context hub --spoke-context spoke-1
drydock setup --print-rbac hub | kubectl apply -f -`,
	"explain": `drydock explain NoSlot`,
	"upgrade-check": `
# with the program of the new version, before its workers start
drydock upgrade-check`,
	"upgrade-promote": `
# when the workers of v2 are being started
drydock upgrade-promote --build-id v2 --percentage 10
drydock upgrade-promote --build-id v2

# back to v1
drydock upgrade-promote --build-id v1`,
	"diff": `
drydock diff -f rollout.yaml
drydock diff -f maintenance.yaml --cluster spoke-1
drydock diff -f window.yaml -n prod`,
	"logs": `
drydock logs prod/november --since 1h
# follow the maintenance of a node to its end
drydock logs node/worker-7 --cluster spoke-1 --follow`,
	"events": `
drydock events --for node/worker-7 --context spoke-1
# follow what happens to a rollout
drydock events --for cgu/november -n prod --context hub --watch`,
	"doctor": `
drydock doctor --hub-context hub --spoke-context spoke-1
# in CI: fail also for warnings
drydock doctor --strict`,
	"version": `drydock version -o json`,
	"man": `
drydock man /usr/local/share/man/man1`,

	"config get-contexts":    `drydock config get-contexts`,
	"config current-context": `drydock config current-context`,
	"config use-context":     `drydock config use-context prod`,
	"config set-context": `
drydock config set-context prod --address temporal.example.com:7233 --temporal-namespace fleet --namespace ztp
# credentials are those of the temporal CLI's profile
temporal config set --profile prod --prop tls.client_cert_path --value client.pem`,
	"config delete-context": `drydock config delete-context lab`,
	"config view":           `drydock config view -o json`,
}
