package conformance

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// Flags for another implementation that is already installed.
var (
	kubeconfig = flag.String("conformance.kubeconfig", os.Getenv("KAUSALITY_CONFORMANCE_KUBECONFIG"),
		"Kubeconfig of a cluster with the implementation under test; empty boots a control plane with ours.")
	configuration = flag.String("conformance.configuration", DefaultConfiguration,
		"Configuration of the installed implementation; scenarios of others are skipped.")
	auditFile = flag.String("conformance.audit-log", "", "The cluster's audit log; without it audit annotations are not checked.")
	receive   = flag.String("conformance.receive", "", "HOST:PORT to receive DriftReports at; without it reports are not checked.")
	plugin    = flag.Bool("conformance.plugin", false,
		"Boot an API server with the admission plugin of -conformance.configuration, in place of webhooks.")
	part         = flag.String("conformance.part", "1/1", "K/N plays the K-th of N parts of the scenarios.")
	receiveCerts = flag.String("conformance.receive-certs", "", "Directory with tls.crt, tls.key and their ca.crt for -conformance.receive.")
)

// atOnce is how many scenarios run at the same time: they mostly wait.
const atOnce = "12"

var (
	suite  *Suite
	runner *Runner
	the    *environment
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if suite, err = Load(os.DirFS(".")); err == nil {
		suite.Scenarios, err = partOf(suite.Scenarios, *part)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if flag.Lookup("test.list").Value.String() == "" {
		the, err = openEnvironment(ctx)
		if the != nil {
			defer the.stop()
		}
		if err == nil {
			runner, err = NewRunner(suite, Options{Config: the.config, AuditLog: the.auditLog, Receiver: the.receiver, Cleanup: the.foreign})
		}
		if err == nil {
			err = answering(ctx)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "cannot start:", err)
			return 1
		}
	}
	code := m.Run()
	if runner != nil {
		fmt.Println(total.String())
	}
	return code
}

// partOf returns one of several equal parts of the scenarios, "2/5" the second fifth. The part of a
// scenario depends on its ID alone.
func partOf(scenarios []Scenario, part string) ([]Scenario, error) {
	var k, n uint32
	if _, err := fmt.Sscanf(part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		return nil, fmt.Errorf("-conformance.part is %q, want K/N with 1 <= K <= N", part)
	}
	return slices.DeleteFunc(slices.Clone(scenarios), func(sc Scenario) bool {
		h := fnv.New32a()
		_, _ = h.Write([]byte(sc.ID()))
		return h.Sum32()%n != k-1
	}), nil
}

// answering waits until the API server calls the implementation, in each
// configuration.
func answering(ctx context.Context) error {
	for _, name := range the.configurations {
		probe := &Scenario{File: "probe", Name: name, Configuration: name, Steps: []map[string]any{{
			"as": "hans", "create": map[string]any{"kind": "Part", "generateName": "probe-", "spec": map[string]any{}},
			"expect": map[string]any{"annotations": map[string]any{"trace": map[string]any{"absent": false}}}, "within": "30s",
		}}}
		if err := runner.Run(ctx, probe); err != nil {
			return fmt.Errorf("configuration %s does not answer: %w", name, err)
		}
	}
	return nil
}

// openEnvironment opens the cluster of -conformance.kubeconfig, or boots one.
func openEnvironment(ctx context.Context) (*environment, error) {
	if *kubeconfig == "" {
		return bootEnvironment(ctx)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	l := &environment{config: config, auditLog: *auditFile, configurations: []string{*configuration}, foreign: true}
	if *receive != "" {
		l.certs = *receiveCerts
		if l.receiver, err = Receive(*receive, l.certs); err != nil {
			return l, err
		}
	}
	return l, l.prepare(ctx)
}

// tally of scenarios by verdict.
type tally struct {
	mu    sync.Mutex
	count map[Verdict]int
}

var total = tally{count: map[Verdict]int{}}

func (n *tally) add(v Verdict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count[v]++
}

func (n *tally) String() string {
	sum := 0
	for _, c := range n.count {
		sum += c
	}
	steps, unseen, again := runner.Steps()
	text := fmt.Sprintf("conformance: %d scenarios, %d steps: %d passed, %d failed, %d known defects, %d skipped; %d expectations not checked",
		sum, steps, n.count[Passed], n.count[Failed], n.count[Defective], n.count[Skipped], unseen)
	if again > 0 {
		text += fmt.Sprintf("; %d requests repeated, because what decides could not be read in time, or the object changed", again)
	}
	return text
}

// validReports: so is each DriftReport that came after its scenario had ended (KR-10-17).
func validReports(t *testing.T) {
	t.Helper()
	if the.receiver == nil {
		return
	}
	t.Logf("%d reports were checked by the schema", len(the.receiver.all()))
	if err := the.receiver.Invalid(); err != nil {
		t.Error(err)
	}
}

// TestScenarios runs each scenario as a subtest. None builds on what another one leaves: of those that fail,
// make test repeats each by itself.
func TestScenarios(t *testing.T) {
	t.Cleanup(func() { validReports(t) })
	for _, sc := range suite.Scenarios {
		t.Run(sc.ID(), func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(the.configurations, sc.In()) {
				total.add(Skipped)
				t.Skipf("it needs configuration %s", sc.In())
			}
			if *plugin && sc.Differs != "" {
				total.add(Skipped)
				t.Skipf("the admission plugin differs: %s", sc.Differs)
			}
			if sc.Later && the.receiver == nil {
				total.add(Skipped)
				t.Skip("it needs -conformance.receive, where the later webhook is")
			}
			verdict, why := sc.Judge(runner.Run(t.Context(), &sc))
			total.add(verdict)
			if verdict == Failed {
				t.Error(why)
			} else if why != "" {
				t.Log(why)
			}
		})
	}
}

// TestRunnerFails runs scenarios that are wrong, each in one way: the runner must
// report what is wrong.
func TestRunnerFails(t *testing.T) {
	var wrong struct {
		Scenarios []struct {
			Scenario
			// Fails with this text.
			Fails string `json:"fails"`
		} `json:"scenarios"`
	}
	if err := decodeFile(os.DirFS("."), "testdata/wrong.yaml", &wrong); err != nil {
		t.Fatal(err)
	}
	for _, sc := range wrong.Scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(the.configurations, DefaultConfiguration) || the.receiver == nil || the.auditLog == "" {
				t.Skip("it needs the default configuration, an audit log and a receiver of reports")
			}
			if err := suite.Validate(&sc.Scenario); err != nil {
				t.Fatal(err)
			}
			err := runner.Run(t.Context(), &sc.Scenario)
			if err == nil || !strings.Contains(err.Error(), sc.Fails) {
				t.Errorf("want it to fail with %q, got: %v", sc.Fails, err)
			}
		})
	}
}
