package transport

import (
	"reflect"
	"testing"
)

func TestEveryCounterIsSummed(t *testing.T) {
	var sum, one Stats
	v := reflect.ValueOf(&one).Elem()
	for i := range v.NumField() {
		v.Field(i).SetUint(uint64(i + 1))
	}
	sum.Add(&one)
	sum.Add(&one)
	got := reflect.ValueOf(sum)
	for i := range got.NumField() {
		if got.Field(i).Uint() != uint64(2*(i+1)) {
			t.Errorf("%s is %d", got.Type().Field(i).Name, got.Field(i).Uint())
		}
	}
	var since Stats
	if since.AddSince(&one, &sum); since != one {
		t.Errorf("%+v since %+v", since, one)
	}
}
