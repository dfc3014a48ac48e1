# Reads what `go test -v` printed, and prints for each test that failed the
# beginning of each of its messages, so that the end of a log says what failed.
/^=== (RUN|NAME|CONT) / { test = $3; left = 0; next }
/^ *--- FAIL: / { fails($3); left = 0; next }
/^ *--- (PASS|SKIP): |^(ok|FAIL|PASS)[ \t]/ { left = 0; next }
/^ +[A-Za-z0-9_]+\.go:[0-9]+: / { left = /the guest hung: / ? 50 : 4 }
/^(panic|fatal error): / { fails(test); left = 25 }
/^WARNING: DATA RACE/ { left = 25 }
left > 0 && lines[test] < 60 { left--; lines[test]++; text[test] = text[test] substr($0, 1, 400) "\n" }
function fails(name) { if (!(name in seen)) failed[++n] = name; seen[name] = 1 }
END {
  for (i = 1; i <= n; i++) printf "--- FAIL: %s\n%s", failed[i], text[failed[i]]
}
