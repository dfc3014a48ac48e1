package specproto

import (
	"encoding/json"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// pairs are the specifications with the messages that add them, and those that show and update them.
var pairs = map[string]struct {
	spec    func() any
	message proto.Message
	others  []proto.Message
}{
	"listener":  {func() any { return new(spec.Listener) }, &rdmadv1.AddListenerRequest{}, []proto.Message{&rdmadv1.Listener{}, &rdmadv1.UpdateListenerRequest{}}},
	"connector": {func() any { return new(spec.Connector) }, &rdmadv1.AddConnectorRequest{}, []proto.Message{&rdmadv1.Connector{}, &rdmadv1.UpdateConnectorRequest{}}},
	"service":   {func() any { return new(spec.Service) }, &rdmadv1.AddServiceRequest{}, []proto.Message{&rdmadv1.Service{}, &rdmadv1.UpdateServiceRequest{}}},
}

// elsewhere are fields that messages have in another form: echo has none of its own, and a connector shows its address.
var elsewhere = map[string]bool{"rdmad.v1.Service.echo": true, "rdmad.v1.UpdateServiceRequest.echo": true, "rdmad.v1.Connector.listen": true}

// paths of the fields of a message that have one value.
func leaves(d protoreflect.MessageDescriptor, prefix string, out map[string]bool) {
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		inner := f.Message()
		if inner != nil && f.IsList() {
			out[prefix+string(f.Name())] = true
		}
		if inner != nil && inner.FullName() != "google.protobuf.Duration" {
			if inner.Fields().Len() == 0 {
				out[prefix+string(f.Name())] = true
			}
			leaves(inner, prefix+string(f.Name())+".", out)
			continue
		}
		out[prefix+string(f.Name())] = true
	}
}

// specLeaves are the same of a specification.
func specLeaves(t reflect.Type, prefix string, out map[string]bool) {
	for f := range spec.Fields(t) {
		if !f.Section() || f.Type.Elem().NumField() == 0 {
			out[prefix+f.API()] = true
		}
		if f.Items() {
			specLeaves(f.Type.Elem(), prefix+f.API()+".", out)
		}
	}
}

// TestFieldsOfTheAPI: a field of a specification is in the .proto file, and one of the
// .proto file is in the specification. The messages that show and update the element have it, too.
func TestFieldsOfTheAPI(t *testing.T) {
	for name, p := range pairs {
		inProto, inSpec := map[string]bool{}, map[string]bool{}
		leaves(p.message.ProtoReflect().Descriptor(), "", inProto)
		specLeaves(reflect.TypeOf(p.spec()).Elem(), "", inSpec)
		if !maps.Equal(inProto, inSpec) {
			t.Errorf("%s: the .proto file has %v\nthe specification has %v", name, slices.Sorted(maps.Keys(inProto)), slices.Sorted(maps.Keys(inSpec)))
		}
		for _, other := range p.others {
			has := map[string]bool{}
			leaves(other.ProtoReflect().Descriptor(), "", has)
			for field := range inSpec {
				if name := string(other.ProtoReflect().Descriptor().FullName()) + "." + field; !has[field] && !elsewhere[name] {
					t.Errorf("there is no %s", name)
				}
			}
		}
	}
}

// draw gives every field a value that may be zero.
func draw(t *rapid.T, to any) {
	root := reflect.ValueOf(to)
	service, kind := reflect.TypeOf(to) == reflect.TypeFor[*spec.Service](), ""
	if service {
		kind = rapid.SampledFrom([]string{"nfs", "echo", "forward"}).Draw(t, "kind")
	}
	for f := range spec.Fields(root.Type().Elem()) {
		if service && f.Path != "name" && f.Path != kind && !within(f.Path, kind) {
			continue
		}
		v := f.In(root, true)
		switch x := v.Addr().Interface().(type) {
		case *string:
			*x = rapid.SampledFrom(append(f.Values(), "a", "h:1", "")).Draw(t, f.Path)
		case *bool:
			*x = rapid.Bool().Draw(t, f.Path)
		case *[]netip.Prefix:
			for range rapid.IntRange(0, 2).Draw(t, f.Path) {
				*x = append(*x, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(len(*x))}), 16))
			}
		case *time.Duration:
			*x = time.Duration(rapid.IntRange(0, 600).Draw(t, f.Path)) * time.Second
		default:
			switch {
			case f.Items():
				if n := rapid.IntRange(0, 2).Draw(t, f.Path); n > 0 {
					v.Set(reflect.MakeSlice(f.Type, n, n))
				}
				for i := range v.Len() {
					draw(t, v.Index(i).Addr().Interface())
				}
			case f.Section():
				v.Set(reflect.New(f.Type.Elem()))
			default:
				v.SetInt(int64(rapid.IntRange(0, 1<<20).Draw(t, f.Path)))
			}
		}
	}
}

func within(path, section string) bool {
	return len(path) > len(section) && path[:len(section)+1] == section+"."
}

// TestRoundTrip: a specification goes through the keys of the file, the API, the
// store's JSON and back, and is the same.
func TestRoundTrip(t *testing.T) {
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := p.spec()
				draw(t, want)
				file := p.spec()
				if err := spec.Decode(spec.Encode(want), file); err != nil {
					t.Fatal(err)
				}
				message := proto.Clone(p.message)
				Write(file, message)
				api := p.spec()
				if err := Read(message, api); err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(spec.Encode(api))
				if err != nil {
					t.Fatal(err)
				}
				values := map[string]any{}
				if err := json.Unmarshal(text, &values); err != nil {
					t.Fatal(err)
				}
				got := p.spec()
				if err := spec.Decode(values, got); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("got  %+v\nwant %+v\nby %s", got, want, text)
				}
			})
		})
	}
}
