// Package rights reads from an API server's audit log which rights Kausality's components used, and has the rights that tests
// of other packages than test/operations show to be used (KR-13-43).
package rights
