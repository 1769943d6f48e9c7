package steps

func test(ev *evaluation) { ev.seen = 1 }
