package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// WindowSize is how many maintenance windows open in the same second, and how many node maintenances wait for them, each for its own window.
type WindowSize struct {
	Windows      int `json:"windows"`
	Maintenances int `json:"maintenances"`
}

// windowsSuffix follows the size of windows.
const windowsSuffix = "/windows"

// ParseWindowSize reads WINDOWSxMAINTENANCES/windows, such as "1000x20/windows".
func ParseWindowSize(text string) (WindowSize, error) {
	rest, found := strings.CutSuffix(text, windowsSuffix)
	opening, waiting, _ := strings.Cut(rest, "x")
	var size WindowSize
	var err, also error
	size.Windows, err = strconv.Atoi(opening)
	size.Maintenances, also = strconv.Atoi(waiting)
	if err := errors.Join(err, also); err != nil || !found || size.Maintenances < 1 || size.Windows < size.Maintenances {
		return WindowSize{}, fmt.Errorf("size %q is not WINDOWSxMAINTENANCES/windows, with a window for each maintenance, e.g. 1000x20/windows", text)
	}
	return size, nil
}

// String is what ParseWindowSize reads.
func (s WindowSize) String() string {
	return fmt.Sprintf("%dx%d%s", s.Windows, s.Maintenances, windowsSuffix)
}
