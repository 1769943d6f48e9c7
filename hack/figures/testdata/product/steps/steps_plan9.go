package steps

func (ev *evaluation) replace(x *evaluation) { *ev = *x }
