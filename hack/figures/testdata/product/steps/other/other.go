package other

type Out struct{ Text string }
