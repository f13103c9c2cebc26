package obs

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// maxShown is how many may read what Shown serves at once.
const maxShown = 4

// Shown serves the metrics as Handler does, to who may not know of every tool:
// calls of those that it does not see are counted under "other".
func (m *Metrics) Shown(sees func(upstream, tool string) bool) http.Handler {
	all := promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := m.registry.Gather()
		for _, f := range families {
			if f.GetName() == callsTotal {
				f.Metric = foldTools(f.Metric, sees)
			}
		}
		return families, err
	}), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.shown.Add(1) > maxShown {
			m.shown.Add(-1)
			http.Error(w, "too many read the metrics at once", http.StatusServiceUnavailable)
			return
		}
		defer m.shown.Add(-1)
		all.ServeHTTP(w, r)
	})
}

// foldTools adds up the calls of tools that are not seen.
func foldTools(in []*dto.Metric, sees func(upstream, tool string) bool) (out []*dto.Metric) {
	folded := map[[2]string]*dto.Metric{} // by upstream and outcome
	for _, one := range in {
		labels := map[string]*dto.LabelPair{}
		for _, l := range one.Label {
			labels[l.GetName()] = l
		}
		tool := labels["tool"]
		if tool.GetValue() != other && sees(labels["upstream"].GetValue(), tool.GetValue()) {
			out = append(out, one)
			continue
		}
		key := [2]string{labels["upstream"].GetValue(), labels["outcome"].GetValue()}
		if sum := folded[key]; sum != nil {
			sum.Counter.Value = new(sum.GetCounter().GetValue() + one.GetCounter().GetValue())
			continue
		}
		if tool != nil {
			tool.Value = new(other)
		}
		folded[key] = one
		out = append(out, one)
	}
	return out
}
