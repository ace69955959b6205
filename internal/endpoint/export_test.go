package endpoint

// Unexported names for the tests of this package.

var Public = public
