package manifest_test

// selecting is a MaintenanceOperatorConfig with a budget that has this node selector.
func selecting(selector string) string {
	return budgets("budgets: [{name: gpu, maxUnavailable: 1, nodeSelector: {" + selector + "}}]")
}

// budgets is a MaintenanceOperatorConfig with these fields in its spec.
func budgets(fields string) string {
	return `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: MaintenanceOperatorConfig
metadata: {name: b}
spec:
` + indented(fields)
}

const (
	limitRule       = "must be a number of at least 0 or a percentage from 0% to 100%"
	budgetNameRule  = "must consist of lower-case letters, digits and '-', beginning and ending with a letter or digit"
	config          = "f: MaintenanceOperatorConfig b: spec."
	budgetLabelRule = "must be the value of a label: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
	topologyKeyRule = "must be the key of a label, e.g. topology.kubernetes.io/zone"
)

func invalidBudgets() []invalidCase {
	selector := config + "budgets[0].nodeSelector."
	return []invalidCase{
		{
			name: "limits that are neither numbers nor percentages", text: budgets("maxParallelOperations: -1\nmaxUnavailable: 120%"),
			lines: []string{
				config + "maxParallelOperations: Invalid value: -1: " + limitRule,
				config + `maxUnavailable: Invalid value: "120%": ` + limitRule,
			},
		},
		{
			name: "limits that are strings", text: budgets("maxParallelOperations: '5'\nmaxUnavailable: 5 %"),
			lines: []string{
				config + `maxParallelOperations: Invalid value: "5": ` + limitRule,
				config + `maxUnavailable: Invalid value: "5 %": ` + limitRule,
			},
		},
		{
			name: "a percentage with a sign, and one with a fraction", text: budgets("maxParallelOperations: -10%\nmaxUnavailable: 2.5%"),
			lines: []string{
				config + `maxParallelOperations: Invalid value: "-10%": ` + limitRule,
				config + `maxUnavailable: Invalid value: "2.5%": ` + limitRule,
			},
		},
		{
			name: "a limit with a fraction", text: budgets("maxUnavailable: 1.5"),
			lines: []string{config + "maxUnavailable: must be of type integer or string, not number"},
		},
		{
			name: "a limit that is larger than any cluster", text: budgets("maxUnavailable: 3000000000"),
			lines: []string{config + "maxUnavailable: Invalid value: 3000000000: must be at most 2147483647"},
		},
		{
			name: "a limit that is a list", text: budgets("maxParallelOperations: [1]"),
			lines: []string{config + "maxParallelOperations: must be of type integer or string, not array"},
		},
		{
			name: "negative times", text: budgets("maxNodeMaintenanceTimeSeconds: -1\nagingSeconds: -1"),
			lines: []string{
				config + "agingSeconds: Invalid value: -1: should be greater than or equal to 0",
				config + "maxNodeMaintenanceTimeSeconds: Invalid value: -1: should be greater than or equal to 0",
			},
		},
		{
			name: "a time with a unit", text: budgets("agingSeconds: 1h"),
			lines: []string{config + "agingSeconds: must be of type integer, not string: write 3600, in seconds"},
		},
		{
			name: "a log level that does not exist", text: budgets("logLevel: warning"),
			lines: []string{config + `logLevel: Unsupported value: "warning": supported values: "debug", "info", "error"`},
		},
		{
			name: "a field that does not exist", text: budgets("maxUnavailble: 1"),
			lines: []string{config + "maxUnavailble: unknown field; did you mean maxUnavailable?"},
		},
		{
			name: "garbage collection without a maximum time", text: budgets("garbageCollect: true"),
			lines: []string{config + "garbageCollect: Invalid value: needs maxNodeMaintenanceTimeSeconds, which says when a request is stale"},
		},
		{
			name: "a budget without a name, and one without limits", text: budgets("budgets: [{maxUnavailable: 1}, {name: gpu}]"),
			lines: []string{
				config + "budgets[0].name: Required value",
				config + "budgets[1]: Invalid value: limits nothing: set maxUnavailable, maxParallelOperations or maxParallelZones",
			}, cluster: []string{"spec.budgets[0].name"},
		},
		{
			name: "two budgets of one name", text: budgets("budgets: [{name: gpu, maxUnavailable: 1}, {name: gpu, maxUnavailable: 2}]"),
			lines: []string{config + `budgets[1]: Duplicate value: {"name":"gpu"}`},
		},
		{
			name: "a budget name that is not a valid label", text: budgets("budgets: [{name: GPU nodes, maxUnavailable: 1}]"),
			lines: []string{config + `budgets[0].name: Invalid value: "GPU nodes": ` + budgetNameRule},
		},
		{
			name: "limits of a budget that are neither numbers nor percentages", text: budgets("budgets: [{name: gpu, maxUnavailable: 101%, maxParallelOperations: some, maxParallelZones: 50%, topologyKey: zone}]"),
			lines: []string{
				config + `budgets[0].maxParallelOperations: Invalid value: "some": ` + limitRule,
				config + "budgets[0].maxParallelZones: must be of type integer, not string",
				config + `budgets[0].maxUnavailable: Invalid value: "101%": ` + limitRule,
			}, cluster: []string{"spec.budgets[0].maxParallelZones"},
		},
		{
			name: "a negative number of zones", text: budgets("budgets: [{name: zones, topologyKey: zone, maxParallelZones: -1}]"),
			lines: []string{config + "budgets[0].maxParallelZones: Invalid value: -1: should be greater than or equal to 0"},
		},
		{
			name: "zones without a topology key", text: budgets("budgets: [{name: zones, maxParallelZones: 1}]"),
			lines: []string{config + "budgets[0].maxParallelZones: Invalid value: needs topologyKey, which says what a zone is"},
		},
		{
			name: "an invalid topology key", text: budgets("budgets: [{name: zones, topologyKey: topology.kubernetes.io/, maxUnavailable: 1}, {name: racks, topologyKey: '', maxUnavailable: 1}]"),
			lines: []string{
				config + `budgets[0].topologyKey: Invalid value: "topology.kubernetes.io/": ` + topologyKeyRule,
				config + `budgets[1].topologyKey: Invalid value: "": ` + topologyKeyRule,
			},
		},
		{
			name: "a node selector with an unknown operator", text: selecting("matchExpressions: [{key: gpu, operator: Has}]"),
			lines: []string{selector + `matchExpressions[0].operator: Unsupported value: "Has": supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		},
		{
			name: "node selectors with wrong or missing values",
			text: selecting("matchExpressions: [{key: gpu, operator: In}, {key: gpu, operator: NotIn, values: []}, {key: gpu, operator: Exists, values: [a]}, {key: gpu, operator: DoesNotExist, values: [a]}]"),
			lines: []string{
				selector + "matchExpressions[0].values: Invalid value: must be given for the operators In and NotIn",
				selector + "matchExpressions[1].values: Invalid value: must be given for the operators In and NotIn",
				selector + "matchExpressions[2].values: Invalid value: must not be given for the operators Exists and DoesNotExist",
				selector + "matchExpressions[3].values: Invalid value: must not be given for the operators Exists and DoesNotExist",
			},
		},
		{
			name: "node selectors with invalid keys and values",
			text: selecting("matchLabels: {gpu: a b, '-gpu': a}, matchExpressions: [{key: gpu/, operator: Exists}, {key: gpu, operator: In, values: [a, -b]}]"),
			lines: []string{
				selector + `matchExpressions[0].key: Invalid value: "gpu/": ` + topologyKeyRule,
				selector + `matchExpressions[1].values[1]: Invalid value: "-b": ` + budgetLabelRule,
				selector + "matchLabels: Invalid value: must have keys of labels, e.g. topology.kubernetes.io/zone",
				selector + `matchLabels[gpu]: Invalid value: "a b": ` + budgetLabelRule,
			},
		},
		{
			name: "a budget that can never cover a node", text: selecting("matchLabels: {gpu: a}, matchExpressions: [{key: gpu, operator: NotIn, values: [a]}]"),
			lines: []string{config + `budgets[0].nodeSelector: Invalid value: "gpu=a,gpu notin (a)": can never match: its requirements for label gpu contradict each other`}, onlyOffline: true,
		},
	}
}
