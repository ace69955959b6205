package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
)

// renderPrecaching shows what a rollout pulls onto its clusters before the first batch, and which objects name it.
func renderPrecaching(w *page, plan rollout.Plan) {
	if plan.Precaching == nil {
		return
	}
	spec := *plan.Precaching
	t := w.newTable("PRECACHED", "VALUE", "FROM")
	for _, name := range precache.Fields() {
		values := map[precache.Field][]string{
			precache.PlatformImage: {spec.PlatformImage}, precache.OperatorsIndexes: spec.OperatorsIndexes,
			precache.OperatorsPackagesAndChannels: spec.OperatorsPackagesAndChannels, precache.ExcludePrecachePatterns: spec.ExcludePrecachePatterns,
			precache.SpaceRequired: {spec.SpaceRequired + " GiB"}, precache.AdditionalImages: spec.AdditionalImages, precache.PreCacheImage: {plan.PreCacheImage},
		}[name]
		source := plan.PrecachingSources[name]
		if release := plan.Release; name == precache.PlatformImage && release != nil && !release.Done() {
			values = []string{"the rollout looks it up"}
			source = fmt.Sprintf("version %s of channel %s in update graph %s", release.Version, release.Channel, release.Upstream)
		}
		for i, value := range values {
			switch {
			case value == "":
			case i == 0:
				t.AppendRow(table.Row{name, value, source})
			default:
				t.AppendRow(table.Row{"", value, ""})
			}
		}
	}
	fmt.Fprintln(w, t.Render())
	if valid := meta.FindStatusCondition(plan.Conditions, ranv1.ConditionPrecacheSpecValid); valid != nil {
		if _, note, noted := strings.Cut(valid.Message, "; "); noted {
			fmt.Fprintln(w, note)
		}
	}
}
