package registration_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}
