// Package kro tests Kausality with the real controller of kro: graphs, their instances, and what kro writes for them.
package kro
