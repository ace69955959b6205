package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/observe"
)

// followed is a status that can be watched.
type followed interface {
	// lines are what there is to say, without times: a line is said when something changes, not when time passes.
	lines() []statusLine
	// frame is the status as one block of text.
	frame(now time.Time, style frameStyle) string
}

// statusLine is one line about one thing. When the text about a thing changes, it is said again.
type statusLine struct{ about, text string }

// frameStyle says how a block of text is drawn. The zero value is plain and without limit.
type frameStyle struct {
	// height of the terminal.
	height  int
	colours bool
}

// getStatus gets the status of a workflow, with at most so many clusters; 0 is no limit. The error may be errFromResult, a remark.
type getStatus func(ctx context.Context, execution *client.WorkflowExecutionDescription, limit int) (followed, error)

// errEnough ends a watch that has seen what it was waiting for.
var errEnough = errors.New("seen enough")

// watch shows a workflow's status until the workflow is over, or until enough says so. Without a worker it waits for one, and for Temporal when that does
// not answer.
func (c *cli) watch(ctx context.Context, s *server, target subject, get getStatus, enough func() bool) error {
	view := c.newView()
	look := func(ctx context.Context, execution *client.WorkflowExecutionDescription) error {
		status, err := get(ctx, execution, view.limit())
		switch {
		case errors.Is(err, observe.ErrTaskFails):
			view.note(observe.ErrTaskFails.Error())
			return nil
		case errors.Is(err, observe.ErrNoWorker):
			view.note(observe.ErrNoWorker.Error())
			return nil
		case errors.Is(err, errFromResult):
			view.note(err.Error())
		case err != nil:
			return err
		default:
			view.note("")
		}
		if err := view.show(status); err != nil {
			return err
		}
		if enough() {
			return errEnough
		}
		return nil
	}
	err := s.follow(ctx, target, look, view.tick)
	for ctx.Err() == nil && observe.Away(err) {
		view.note(fmt.Sprintf("Temporal does not answer, and is asked again: %s", err))
		_ = observe.Pause(ctx, askAgain) // following again says that ctx is over
		err = s.follow(ctx, target, look, view.tick)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// askAgain is how long Temporal is left alone that has not answered.
const askAgain = time.Second

// view shows a status as it changes.
type view interface {
	// limit is how many clusters the view can show; 0 is any number.
	limit() int
	show(status followed) error
	// tick is called every second, for what changes with time alone.
	tick()
	// note says what is not part of the status; empty: what was noted is over.
	note(message string)
}

// newView returns the live view on a terminal, lines elsewhere, and documents for programs.
func (c *cli) newView() view {
	if c.output != formatTable {
		return &documentsView{cli: c}
	}
	if _, _, ok := c.terminal(); ok {
		return &liveView{cli: c, screen: screen{out: c.Out}}
	}
	return &linesView{cli: c, said: map[string]string{}}
}

// documentsView writes every status as a document of its own: a line of JSON, or a YAML document.
type documentsView struct {
	cli  *cli
	last string
}

func (v *documentsView) limit() int { return 0 }
func (v *documentsView) tick()      {}

func (v *documentsView) note(message string) {
	if message != "" {
		fmt.Fprintln(v.cli.ErrOut, message)
	}
}

func (v *documentsView) show(status followed) error {
	marshal, separator := json.Marshal, ""
	if v.cli.output == formatYAML {
		marshal, separator = func(object any) ([]byte, error) { return yaml.Marshal(object) }, "---\n"
	}
	text, err := marshal(status)
	if err != nil || string(text) == v.last {
		return err
	}
	v.last = string(text)
	_, err = fmt.Fprintln(v.cli.Out, separator+v.last)
	return err
}

// linesView writes one line for every change.
type linesView struct {
	cli *cli
	// said is the last line about each thing.
	said map[string]string
}

func (v *linesView) limit() int { return 0 }
func (v *linesView) tick()      {}

func (v *linesView) note(message string) {
	const about = "note"
	if message == "" {
		delete(v.said, about) // when it comes back, it is said again
		return
	}
	_ = v.say(statusLine{about, message})
}

func (v *linesView) show(status followed) error {
	for _, line := range status.lines() {
		if err := v.say(line); err != nil {
			return err
		}
	}
	return nil
}

func (v *linesView) say(line statusLine) error {
	if v.said[line.about] == line.text {
		return nil
	}
	v.said[line.about] = line.text
	_, err := fmt.Fprintf(v.cli.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), line.text)
	return err
}

// liveView keeps the status on a terminal up to date.
type liveView struct {
	cli    *cli
	screen screen
	status followed
	noted  string
}

// limit asks for no more clusters than there are lines for.
func (v *liveView) limit() int {
	_, height, _ := v.cli.terminal()
	return clusterLines(height)
}

func (v *liveView) show(status followed) error {
	v.status, v.noted = status, ""
	v.tick()
	return nil
}

func (v *liveView) note(message string) {
	v.noted = message
	v.tick()
}

func (v *liveView) tick() {
	width, height, _ := v.cli.terminal()
	block := v.noted
	if v.status != nil {
		block = v.status.frame(time.Now(), frameStyle{height: height, colours: true}) + "\n" + v.noted
	}
	if block != "" {
		v.screen.draw(block, width)
	}
}
