package console

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed static
var static embed.FS

// page serves the console's files.
func page() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err)
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if info, err := fs.Stat(files, name); name != "" && (err != nil || info.IsDir()) {
			http.Error(w, "no such file", http.StatusNotFound) // FileServer would drop headers
			return
		}
		server.ServeHTTP(w, r)
	})
}
