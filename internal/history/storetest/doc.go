// Package storetest is what every store of records must do, whatever database it is in. Tests alone import it.
package storetest
