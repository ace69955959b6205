package manifest_test

// budgets is a MaintenanceOperatorConfig with these fields in its spec.
func budgets(fields string) string {
	return `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: MaintenanceOperatorConfig
metadata: {name: b}
spec:
` + indented(fields)
}

const limitRule = "must be a number of at least 0 or a percentage from 0% to 100%"

func invalidBudgets() []invalidCase {
	const config = "f: MaintenanceOperatorConfig b: spec."
	return []invalidCase{
		{
			name: "limits that are neither numbers nor percentages", text: budgets("maxParallelOperations: -1\nmaxUnavailable: 120%"),
			lines: []string{
				config + "maxParallelOperations: Invalid value: -1: " + limitRule,
				config + `maxUnavailable: Invalid value: "120%": ` + limitRule,
			},
		},
	}
}
