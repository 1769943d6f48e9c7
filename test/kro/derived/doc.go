// Package derived has the tests of policies that are derived from graphs of kro: the whole life of an instance under them, with kro's real
// controller and the policy controller of the chart.
package derived
