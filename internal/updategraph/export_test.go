package updategraph

import "time"

// SetTimeout sets the longest time for an answer.
func SetTimeout(c *Client, limit time.Duration) { c.timeout = limit }
