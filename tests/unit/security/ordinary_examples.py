"""What an agent does all day, which nobody wants to be asked about."""

DAILY = r"""
rm -f a.txt
cp /bin/ls /tmp/x
cp /etc/hosts .
python3 -c "import requests; print(requests.post('http://localhost:8000/api', json={'a': 1}).text)"
python3 -c "import requests, os; requests.post('https://example.com', headers={'Authorization': os.environ['TOKEN']})"
cd /repo && git add -A && git commit -m "fix: don't crash when x is None"
python3 app.py --port 8000 &
for i in 1 2 3; do curl -s localhost:8000/health && break; sleep 1; done
find . -name '*.pyc' -not -path './venv/*' | head -20
grep -rn 'foo\|bar' --include='*.py' . | awk -F: '{print $1}' | sort | uniq -c
sed -i 's/foo/bar/g' $(grep -rl foo src)
ls -la | awk '{print $5, $9}' | sort -n
awk 'NR==1{print; next} {s+=$3} END{printf "%d\n", s}' data.csv
python3 -c "import sys; print(sys.version_info[:2])"
python3 -c 'import subprocess; print(subprocess.check_output(["git","status"]).decode())'
python -c "import torch; print(torch.cuda.is_available())"
python -m pytest tests/ -x -q 2>&1 | tail -30
python -m venv .venv && . .venv/bin/activate && pip install -e '.[dev]'
PYTHONPATH=src python -m unittest discover
NODE_ENV=production npm run build
DATABASE_URL=postgres://localhost/x alembic upgrade head
node -e "const p=require('./package.json'); console.log(p.version)"
node -e "console.log(JSON.stringify(require('fs').readdirSync('.')))"
perl -ne 'print if /foo/' a.txt
perl -pi -e 's/a/b/' a.txt
ruby -e 'puts [1,2].sum'
if [ ! -d node_modules ]; then npm ci; fi
[ -f .env ] || cp .env.example .env
test -x ./gradlew && ./gradlew build
while ! nc -z localhost 5432; do sleep 1; done
export FOO=bar; echo $FOO
VERSION=$(git describe --tags); echo "v$VERSION"
VERSION=$(cat VERSION) && docker build -t app:$VERSION .
docker compose up -d && docker compose logs --tail=50 web
docker run --rm -v "$(pwd)":/src -w /src golang:1.22 go test ./...
kubectl get pods -n prod -o json | jq '.items[].metadata.name'
curl -sS https://api.example.com/v1/items?limit=10 | jq '.[0]'
curl -X POST http://localhost:8000/api -H 'Content-Type: application/json' -d '{"a": [1,2], "b": "c"}'
curl -o data.zip https://example.com/data.zip && unzip -q data.zip -d data
tar -xzf a.tgz -C build --strip-components=1
mkdir -p build/{a,b,c} && touch build/a/x
mv src/{old,new}.py
cp -r src/. /tmp/work/
rm -f *.log
rm -rf dist/ *.egg-info
rm -rf /tmp/build-123 && mkdir /tmp/build-123
xargs -a files.txt wc -l
git ls-files | xargs -I{} sh -c 'wc -l "{}"'
git diff --name-only | xargs ruff check
git log --format='%h %s' | head; git show --stat HEAD
git stash push -m wip && git pull --rebase && git stash pop
git rebase main
git worktree add ../wt feature
git checkout -b feature/x origin/main
git config user.email a@example.com
make -C build -j$(nproc) all
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build
cargo test -- --nocapture
go run ./cmd/server -addr :8080 &
timeout 30 ./server & sleep 2; kill -0 $!
echo "PATH is $PATH"
export PATH="$HOME/.local/bin:$PATH"
PATH="$PWD/node_modules/.bin:$PATH" eslint .
source ~/.nvm/nvm.sh && nvm use 20
eval "$(ssh-agent -s)"
printf '%s\n' "${arr[@]}"
arr=(a b c); for x in "${arr[@]}"; do echo "$x"; done
f() { echo "$1"; }; f hello
set -euo pipefail; ls
trap 'echo done' EXIT; make
ssh host 'cd /srv/app && git pull && make'
ssh -i key.pem ubuntu@host "ls -la $DIR"
rsync -avz --exclude node_modules ./ host:/srv/app/
scp -r dist host:/srv/www
psql -U app -d app -c "SELECT * FROM users WHERE id = 1;"
sqlite3 db.sqlite "select count(*) from t"
mysql -u root -p app < schema.sql
redis-cli GET foo
jq -r '.scripts | keys[]' package.json
yq '.a.b' x.yaml
diff -u <(sort a) <(sort b) || true
tail -f log.txt | grep --line-buffered error
watch -n 2 'kubectl get pods'
time (make clean && make)
time { make; }
nohup ./run.sh > out.log 2>&1 &
ps aux | grep '[p]ython' | awk '{print $2}'
lsof -i :8080
ss -tlnp
netstat -an | grep LISTEN
brew list | grep -i node
apt-get update
pip list --outdated
npm outdated
npx create-react-app x
npx --yes prettier --write src
uvx ruff check .
pre-commit run -a
tsc --noEmit -p .
vite build
jest --coverage
hexdump -C a.bin | head
xxd a.bin | head
openssl x509 -in a.pem -text -noout
echo '{"a":1}' | python3 -m json.tool
python3 -m http.server &
seq 1 10 | xargs -P4 -I{} echo job {}
cat a.txt | while read -r line; do echo "> $line"; done
while IFS=, read -r a b; do echo "$a"; done < x.csv
case "$1" in start) echo s;; *) echo u;; esac
x=5; ((x++)); echo $x
echo $((2**10))
[[ "$x" =~ ^[0-9]+$ ]] && echo num
ls *.py 2>/dev/null | wc -l
find . -type f -name '*.py' -exec sed -i 's/\r$//' {} +
find . -type f -print0 | xargs -0 grep -l foo
git grep -n 'foo$' -- '*.py'
grep -E '^(a|b)$' file
echo foo$ bar
grep 'a`b' file
sed -n '/start/,/end/p' a.txt
sed -e 's/a/b/' -e 's#c#d#g' a.txt
sed 's/\(.*\)/<\1>/' a.txt
awk '{ if ($1 > 10) print $2 }' a.txt
awk '{print $1 > "out.txt"}' a.txt
tree -a -I 'node_modules|.git'
convert a.png -resize 50% b.png
ffmpeg -i a.mp4 -vf scale=320:-1 b.gif
pandoc a.md -o b.pdf
latexmk -pdf a.tex
jupyter nbconvert --to script a.ipynb
chmod +x scripts/*.sh && ./scripts/build.sh
ln -s ../a b
touch "a b.txt" && rm "a b.txt"
dd if=/dev/zero of=test.img bs=1M count=10
split -l 1000 a.txt part_
python3 -c "import shutil; shutil.copy('a','b')"
python3 -c "from pathlib import Path; [print(p) for p in Path('.').rglob('*.py')]"
python3 -c "import os; print([f for f in os.listdir('.') if f.endswith('.py')])"
python3 -c "print(eval('1+1'))"
python3 -c "import urllib.parse as u; print(u.quote('a b'))"
python3 -c "import importlib.metadata as m; print(m.version('pytest'))"
python3 -c "x = {'a': lambda: 1}; print(x['a']())"
python3 -c "import ast; print(ast.dump(ast.parse(open('a.py').read())))"
python3 -c "import numpy as np, pandas as pd; print(pd.read_csv('a.csv').rename(columns={'a':'b'}).head())"
""".strip().splitlines()
