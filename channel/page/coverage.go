package page

import "context"

// coverage returns the page with what is not protected, and what is frozen or snoozed (KR-17-12).
func (p *Page) coverage(ctx context.Context, _ *query) (*answer, error) {
	c, err := p.view.Coverage(ctx)
	if err != nil {
		return nil, err
	}
	return &answer{template: "coverage.html", title: "Coverage", data: c}, nil
}
