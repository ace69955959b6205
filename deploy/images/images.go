package main

import (
	"drydock.dev/drydock/internal/gobuild"
	"drydock.dev/drydock/internal/precache/contract"
)

// image is a container image with one static program, roots of trust for TLS, and nothing else.
type image struct {
	// source is what the program is compiled from. Its name is also that of the image.
	source      gobuild.Program
	title       string
	description string
	// links are other paths of the program.
	links []string
	// user runs the program: a number, so that Kubernetes can check that it is not root.
	user string
	// limit is its compressed size in MiB that a change must not pass by accident.
	limit int
}

// nonRoot is the user of programs that need nothing of their machine.
const nonRoot = "65532:65532"

var images = []image{
	{
		source: gobuild.Worker(), user: nonRoot, limit: 40,
		title: "Drydock worker", description: "Runs Drydock's workflows and activities, and the controllers of its objects.",
	},
	{
		source: gobuild.CLI(), user: nonRoot, limit: 40,
		title: "Drydock", description: "The CLI of Drydock, its status page (serve) and its codec server.",
	},
	{
		source: gobuild.Standalone(), user: nonRoot, limit: 70,
		title: "Drydock standalone", description: "Drydock with Temporal in one process.",
	},
	{
		source: gobuild.Prepare(), user: "0:0", links: []string{contract.PrecacheProgram}, limit: 10,
		title: "Drydock prepare", description: "Precaches images and backs up nodes, in privileged Jobs.",
	},
}
